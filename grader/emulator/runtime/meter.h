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
void memory_call(const char* call, const void* to, const void* from, size_t bytes);

// The next block stands for so many blocks of the grid, itself included.
void set_weight(uint64_t blocks);
// What a block has shown that has just ended: accesses that it made, and how many of its kind are
// resident on a multiprocessor together.
uint64_t accesses_of_block();
unsigned resident_blocks();

}  // namespace emulator::meter
