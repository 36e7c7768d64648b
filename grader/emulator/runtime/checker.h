// Looks at every access of device code and every synchronisation for what is wrong with them. A fault
// is a finding with a line; the program goes on where it can.
#pragma once

#include "memory.h"
#include "watch.h"

namespace emulator::checker {

// The checks are switched on: what happened before is taken to be right.
void begin();

// Told by watch.cpp; see watch.h for what each means.
void access(const Access& access);
void launch(const Grid& grid);
void end_of_launch();
void block();
void end_of_block();
void end_of_thread();
void barrier();
void warp_operation(const Warp& warp, uint32_t lanes, int operation, bool ordered);
void fence(int scope);
void copied_by_device(char* to, const char* from, size_t size);

// Told by the functions of the runtime API, and only while the checks are on.
void allocated(const Allocation& allocation);
void copied(void* to, const void* from, size_t size, const void* stream, const Site& site);
void filled(void* to, size_t size, const void* stream, const Site& site);

}  // namespace emulator::checker
