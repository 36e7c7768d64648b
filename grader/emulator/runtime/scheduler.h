// Runs the threads of a block: each until it has to wait, lanes of one warp first.
#pragma once

#include "block.h"
#include "stacks.h"

namespace emulator {

void fiber_main();

// Makes `thread` the one whose threadIdx device code sees.
inline __attribute__((always_inline)) void become(Thread* thread) {
    current = thread;
    threadIdx = thread->index;
}

inline __attribute__((always_inline)) void* context_of(Thread* thread) {
    if (thread->context == nullptr) {
        thread->stack = stacks.take();
        thread->context = make_context(stacks.top(thread->stack, thread - block.threads.data()), fiber_main);
    }
    return thread->context;
}

// Suspends the running thread, which is no longer in its warp's ready set, until someone puts it back.
inline __attribute__((always_inline)) void wait(Thread* thread, Warp& warp) {
    if (warp.ready) {
        Thread* next = warp.threads + schedule.next_lane(warp.ready, thread->lane);
        void* context = context_of(next);
        become(next);
        switch_context(&thread->context, context);
    } else {
        switch_context(&thread->context, block.hub);
    }
}

// Lets others run although the thread could go on.
void yield();

// Runs the block whose threads have been prepared; returns when all are done or a fault ended it.
void run_block();

// Sets the block up for `size` threads of a grid; run_block may then be called once per block.
void prepare_block(dim3 shape, void (*entry)(const void*), const void* body);

}  // namespace emulator
