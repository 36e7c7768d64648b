// __syncthreads() and its kin.
#pragma once

#include "keywords.h"
#include "operations.h"

extern "C" {
// `__id` tells barriers apart that stand at different places of the source.
int __emulator_barrier(int __operation, int __predicate, int __id, int __line, const char* __file);
void __emulator_fence(int __scope);
}

// Macros, because __COUNTER__ numbers the textual occurrences: a line may hold two of them, and the
// optimiser may make two of one.
#define __syncthreads() (void)__emulator_barrier(__EMULATOR_BARRIER, 0, __COUNTER__, __LINE__, __FILE__)
#define __syncthreads_count(...) \
    __emulator_barrier(__EMULATOR_BARRIER_COUNT, (__VA_ARGS__) != 0, __COUNTER__, __LINE__, __FILE__)
#define __syncthreads_and(...) \
    __emulator_barrier(__EMULATOR_BARRIER_AND, (__VA_ARGS__) != 0, __COUNTER__, __LINE__, __FILE__)
#define __syncthreads_or(...) \
    __emulator_barrier(__EMULATOR_BARRIER_OR, (__VA_ARGS__) != 0, __COUNTER__, __LINE__, __FILE__)

static __EMULATOR_INLINE__ void __threadfence_block() { __emulator_fence(1); }
static __EMULATOR_INLINE__ void __threadfence() { __emulator_fence(2); }
static __EMULATOR_INLINE__ void __threadfence_system() { __emulator_fence(3); }
