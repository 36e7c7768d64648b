// What happens while device code runs, told as it happens to those who watch: the checkers, which look
// for faults, and the counters, from which the cost of a kernel is modelled. Nobody watches by default.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block.h"
#include "fault.h"

namespace emulator {

enum Watcher : unsigned { kChecks = 1, kCounts = 2 };

extern unsigned watchers;  // who watches the launches that are made now

// One access of the running thread to memory, as wide as the source has it. `instruction` lies behind
// the access in the student's code; lines.h knows its line.
struct Access {
    char* address;
    uint32_t size;
    bool write;
    bool atomic;
    const void* instruction;
    bool is_volatile = false;
    bool blind = false;  // an atomic that does not look at the old value
    bool aligned = true;  // the compiler takes the address for a multiple of the size
};

struct Grid {
    dim3 blocks;
    dim3 threads;
    size_t dynamic_shared;
    Site site;         // of the launch
    void* stream;
};

// Each is called only while somebody watches. `current` is the thread that it is about, and null in
// those that are about a block or a launch.
void watch_access(const Access& access);
void watch_launch(const Grid& grid);  // before its first block
void watch_end_of_launch();
void watch_block();         // its threads are about to start
void watch_end_of_block();  // not told if a fault ended it
void watch_end_of_thread();
// All live threads of the block have come to one barrier and go on.
void watch_barrier();
// These lanes of a warp have completed a warp operation (operations.h) together. `ordered`: memory
// accesses before it happen before those after it (__syncwarp, but not a shuffle).
void watch_warp_operation(const Warp& warp, uint32_t lanes, int operation, bool ordered);
void watch_fence(int scope);  // 1 block, 2 device, 3 system
// The host has copied or filled memory; a null pointer is memory of the host.
void watch_memory_call(const char* call, const void* to, const void* from, size_t bytes);
// Bytes were copied from one place to the other; the two accesses have been told.
void watch_copy(char* to, const char* from, size_t size);

}  // namespace emulator
