// The block that runs: its threads, its warps, who may go on, who waits for what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../include/emulator/vector_types.h"
#include "schedule.h"
#include "switch.h"

// threadIdx and its kin; device code sees them as constants of CUDA's types.
extern "C" {
extern __attribute__((visibility("hidden"))) uint3 threadIdx;
extern __attribute__((visibility("hidden"))) uint3 blockIdx;
extern __attribute__((visibility("hidden"))) uint3 blockDim;
extern __attribute__((visibility("hidden"))) uint3 gridDim;
}

namespace emulator {

constexpr int kWarpSize = 32;

struct alignas(64) Thread {
    void* context;     // where it goes on; null before it has started
    uint64_t value;    // operand of the warp operation it waits in, then its result
    const char* file;  // where it waits
    uint32_t mask;     // of the warp operation
    int32_t source;    // lane or distance of a shuffle
    int32_t line;
    int32_t barrier;  // which __syncthreads()
    uint16_t warp;
    uint8_t lane;
    uint8_t operation;
    uint8_t width;
    uint3 index;  // threadIdx
    char* stack;
};

// Each live lane is in exactly one of the four sets below `live`.
struct Warp {
    Thread* threads;  // of lane 0
    uint32_t present;
    uint32_t live;
    uint32_t ready;
    uint32_t waiting;  // in a warp operation
    uint32_t barrier;  // at a block barrier
    uint32_t active;   // asking for the active mask
    uint32_t shared_mask;      // mask and operation of the waiting lanes,
    uint8_t shared_operation;  // if `uniform`
    bool uniform;
    uint8_t turn;  // the lane that ran last
};

struct Block {
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<int> order;  // in which the warps take turns
    int size = 0;
    int live = 0;
    int arrived = 0;           // at the barrier
    int barrier_id = 0;        // of the first that arrived
    bool mixed = false;        // threads arrived at different barriers
    int barrier_operation = 0;
    int count = 0;             // of predicates that hold, in __syncthreads_count and its kin
    int barrier_result = 0;
    void* hub = nullptr;       // the context of run_block
    bool abandoned = false;    // a fault ended the kernel
    void (*entry)(const void*) = nullptr;
    const void* body = nullptr;  // the kernel's parameters among it
    size_t body_size = 0;
};

extern Block block;
extern Thread* current;  // null while host code runs

inline uint32_t bit_of(const Thread* thread) { return uint32_t{1} << thread->lane; }
inline Warp& warp_of(const Thread* thread) { return block.warps[thread->warp]; }

}  // namespace emulator
