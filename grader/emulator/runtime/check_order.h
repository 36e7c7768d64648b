// What happened before what, within one launch: barriers, warp synchronisation, and atomics or flags after a
// fence. Launches are ordered by streams (check_streams.h).
#pragma once

#include <cstdint>

#include "block.h"
#include "check_stamp.h"

namespace emulator::checker {

// Intervals (check_stamp.h) of what runs now.
struct Now {
    uint32_t interval = 0;
    uint32_t block = 0;   // the first of the running block
    uint32_t launch = 0;  // the first of the running launch
};
extern Now now;

// What each lane of a warp knows of the others in this interval: their accesses up to which epoch.
struct WarpClock {
    uint16_t known[kWarpSize][kWarpSize];
    uint16_t epoch[kWarpSize];
    bool moved;  // not as at the start of the interval
};
extern WarpClock* warp_clocks;  // of the running block

void start_launch();
void start_block();
void pass_barrier();
void synchronise_warp(int warp, uint32_t lanes);
void pass_fence(const Thread& thread, int scope);

// The thread writes to the address by an atomic, or to a flag: whoever reads that later by an atomic, or as a
// flag, knows what the thread's fences have published. `replaces`: the write forgets what others published there.
void publish(const Thread& thread, const char* address, bool replaces);
void learn(const Thread& thread, const char* address);
// The thread has passed a fence in this interval.
bool has_fenced(const Thread& thread);

inline Stamp stamp_of(const Thread& thread) {
    const unsigned rank = thread.warp * unsigned{kWarpSize} + thread.lane;
    return Stamp(now.interval, rank, warp_clocks[thread.warp].epoch[thread.lane]);
}

// Whether an access by another block, or by this one in the same interval, was published to the thread.
bool was_published(const Thread& thread, Stamp access);
extern bool anything_learnt;  // by a thread of the running block

// Whether an access of this launch happened before what `thread` does now.
inline bool happened_before(Stamp access, const Thread& thread) {
    const uint32_t interval = access.interval();
    if (interval == now.interval) {
        const unsigned other = access.thread();
        if (other / kWarpSize == thread.warp) {
            const unsigned lane = other % kWarpSize;
            if (lane == thread.lane) return true;
            if (warp_clocks[thread.warp].known[thread.lane][lane] >= access.epoch()) return true;
        }
    } else if (interval >= now.block) {
        return true;
    }
    return __builtin_expect(anything_learnt, 0) && was_published(thread, access);
}

// The linear number of the block that was running in an interval of this launch.
uint64_t block_of(uint32_t interval);

}  // namespace emulator::checker
