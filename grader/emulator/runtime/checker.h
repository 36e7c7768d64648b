// Looks at every access of device code and every synchronisation for what is wrong with them. A fault
// is a finding with a line; the program goes on where it can.
#pragma once

#include "watch.h"

namespace emulator::checker {

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

}  // namespace emulator::checker
