// What was counted, launch by launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../include/emulator/vector_types.h"
#include "fault.h"

namespace emulator::meter {

// Sums over a launch. A sector is 32 bytes. Of a sampled launch, what every block does counts as often as
// the blocks it stands for.
#define EMULATOR_COUNTERS(COUNTER) \
    COUNTER(threads)                        /* started */ \
    COUNTER(warps) \
    COUNTER(global_load_requests)           /* of a warp */ \
    COUNTER(global_load_sectors)            /* between the warps and L1 */ \
    COUNTER(global_load_ideal_sectors)      /* if the bytes lay side by side */ \
    COUNTER(global_store_requests) \
    COUNTER(global_store_sectors) \
    COUNTER(global_store_ideal_sectors) \
    COUNTER(global_atomic_requests) \
    COUNTER(global_atomic_operations)       /* of a lane */ \
    COUNTER(global_atomic_sectors) \
    COUNTER(global_atomic_turns)            /* for each request, the most lanes on one address */ \
    COUNTER(global_atomics_on_one_address)  /* in the whole launch, on the busiest address */ \
    COUNTER(shared_load_requests) \
    COUNTER(shared_load_waves)              /* passes over the 32 banks */ \
    COUNTER(shared_load_ideal_waves) \
    COUNTER(shared_store_requests) \
    COUNTER(shared_store_waves) \
    COUNTER(shared_store_ideal_waves) \
    COUNTER(shared_atomic_requests) \
    COUNTER(shared_atomic_operations) \
    COUNTER(shared_atomic_waves) \
    COUNTER(l1_waves)                       /* 128-byte lines that requests to global memory touch */ \
    COUNTER(l1_hit_sectors)                 /* loads that L1 answers */ \
    COUNTER(l2_read_sectors)                /* loads that go to L2 */ \
    COUNTER(l2_write_sectors) \
    COUNTER(l2_atomic_sectors) \
    COUNTER(l2_hit_sectors)                 /* of those read by loads and atomics */ \
    COUNTER(dram_read_sectors) \
    COUNTER(dram_write_sectors)             /* while the launch runs */ \
    COUNTER(dirty_sectors_left)             /* in L2, to be written to memory later */ \
    COUNTER(unique_read_sectors)            /* read before written: what has to be read at least */ \
    COUNTER(unique_written_sectors) \
    COUNTER(block_barriers)                 /* of a block */ \
    COUNTER(warp_barriers)                  /* of a warp, at block barriers */ \
    COUNTER(shuffles)                       /* of a warp, as the next two */ \
    COUNTER(votes)                          /* and matches and reductions */ \
    COUNTER(warp_synchronisations) \
    COUNTER(loop_steps)                     /* of a thread */ \
    COUNTER(warp_instructions)              /* estimated */ \
    COUNTER(busiest_warp_load_requests) \
    COUNTER(busiest_warp_requests)          /* to global memory */ \
    COUNTER(busiest_warp_load_rounds)       /* stretches between synchronisations that load */ \
    COUNTER(busiest_block_barriers) \
    COUNTER(accesses)                       /* that were looked at: not scaled */

struct Counters {
#define COUNTER(name) uint64_t name = 0;
    EMULATOR_COUNTERS(COUNTER)
#undef COUNTER
};

enum class What : uint8_t { load, store, atomic };

// The requests of one instruction to one buffer.
struct LineCounts {
    const void* instruction;
    What what;
    bool shared;
    std::string buffer;
    uint64_t requests = 0;
    uint64_t sectors = 0;  // of global memory
    uint64_t ideal_sectors = 0;
    uint64_t waves = 0;  // of shared memory
    uint64_t ideal_waves = 0;
};

struct BufferCounts {
    const char* begin;
    std::string name;
    size_t bytes;
    uint64_t read_sectors;
    uint64_t written_sectors;
    double in_l2;  // the share of what is read that earlier launches left in L2
};

struct Record {
    std::string kernel;
    Site site;
    dim3 grid;
    dim3 threads;
    size_t static_shared = 0;
    size_t dynamic_shared = 0;
    unsigned blocks_per_sm = 0;
    uint64_t sampled_blocks = 0;
    bool truncated = false;
    Counters counters;
    std::vector<LineCounts> lines;
    std::vector<BufferCounts> buffers;
};

struct MemoryCall {
    std::string name;
    size_t bytes;
};

struct Records {
    std::vector<Record> launches;
    std::vector<MemoryCall> calls;
};

std::string to_json(const Records& records);

}  // namespace emulator::meter
