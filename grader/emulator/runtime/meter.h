// Counts what device code asks of the memory and the multiprocessors: requests, sectors, bytes, waves,
// barriers. From the counts the time that a kernel takes is modelled.
#pragma once

#include "watch.h"

namespace emulator::meter {

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

}  // namespace emulator::meter
