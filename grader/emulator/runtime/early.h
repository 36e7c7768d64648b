// Objects that are there before any constructor of the program runs, and until its last destructor has.
#pragma once

#ifdef __APPLE__
#define EMULATOR_EARLY
#else
#define EMULATOR_EARLY __attribute__((init_priority(101)))
#endif
