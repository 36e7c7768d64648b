// The step budget: how long a program may run before it is taken to be endless.
#pragma once

extern "C" __attribute__((visibility("hidden"))) long __emulator_steps;

namespace emulator {

// A wait at a barrier or in a warp operation is a step as well; loops look at the count.
inline void take_step() { --__emulator_steps; }
// Threads that a launch starts are steps; false when the budget is spent.
bool take_steps(long count);

}  // namespace emulator
