#include "scheduler.h"

#include "barrier.h"
#include "early.h"
#include "fault.h"
#include "signals.h"
#include "warp.h"
#include "watch.h"

extern "C" {
uint3 threadIdx;
uint3 blockIdx;
uint3 blockDim;
uint3 gridDim;
}

namespace emulator {

EMULATOR_EARLY Block block;
Thread* current = nullptr;

// Where every fiber starts. A thread that is done hands its stack to the next one that has not started,
// so kernels that never wait run all their threads on one stack without a switch.
void fiber_main() {
    for (;;) {
        block.entry(block.body);
        if (__builtin_expect(watchers != 0, 0)) watch_end_of_thread();
        Thread* thread = current;
        Warp& warp = warp_of(thread);
        warp.ready &= ~bit_of(thread);
        warp.live &= ~bit_of(thread);
        --block.live;
        if (warp.ready == 0) {
            stacks.give_back(thread->stack);
            jump_context(block.hub);
        }
        Thread* next = warp.threads + schedule.next_lane(warp.ready, thread->lane);
        if (next->context == nullptr) {
            next->stack = thread->stack;
            next->context = thread->stack;  // any value: it has started
            become(next);
            continue;
        }
        stacks.give_back(thread->stack);
        become(next);
        jump_context(next->context);
    }
}

void yield() {
    Thread* thread = current;
    switch_context(&thread->context, block.hub);
}

void prepare_block(dim3 shape, void (*entry)(const void*), const void* body) {
    block.entry = entry;
    block.body = body;
    block.size = static_cast<int>(shape.x * shape.y * shape.z);
    const int warps = (block.size + kWarpSize - 1) / kWarpSize;
    block.threads.assign(static_cast<size_t>(warps) * kWarpSize, Thread{});
    block.warps.assign(static_cast<size_t>(warps), Warp{});
    for (int i = 0; i < block.size; ++i) {
        Thread& thread = block.threads[static_cast<size_t>(i)];
        const auto rank = static_cast<unsigned>(i);
        thread.warp = static_cast<uint16_t>(i / kWarpSize);
        thread.lane = static_cast<uint8_t>(i % kWarpSize);
        thread.index = {rank % shape.x, rank / shape.x % shape.y, rank / (shape.x * shape.y)};
    }
    for (int w = 0; w < warps; ++w) {
        Warp& warp = block.warps[static_cast<size_t>(w)];
        const int lanes = block.size - w * kWarpSize;
        warp.threads = block.threads.data() + static_cast<ptrdiff_t>(w) * kWarpSize;
        warp.present = lanes >= kWarpSize ? ~uint32_t{0} : (uint32_t{1} << lanes) - 1;
    }
}

static void start_block() {
    stacks.reserve(static_cast<size_t>(block.size));
    block.live = block.size;
    block.arrived = 0;
    block.mixed = false;
    block.abandoned = false;
    for (Thread& thread : block.threads) thread.context = nullptr;
    for (Warp& warp : block.warps) {
        warp.live = warp.ready = warp.present;
        warp.waiting = warp.barrier = warp.active = 0;
        warp.turn = schedule.before_first();
    }
    schedule.arrange(block.order, static_cast<int>(block.warps.size()));
}

// Runs ready lanes of the warp until all of them wait or are done, or one of them yields.
static void run_warp(Warp& warp) {
    Thread* thread = warp.threads + schedule.next_lane(warp.ready, warp.turn);
    void* context = context_of(thread);
    become(thread);
    switch_context(&block.hub, context);
    if (signal_received()) report_signal();
    warp.turn = current->lane;
    current = nullptr;
}

void run_block() {
    start_block();
    for (;;) {
        bool progress = false;
        for (const int number : block.order) {
            Warp& warp = block.warps[static_cast<size_t>(number)];
            while (warp.ready != 0 || settle_warp(warp)) {
                progress = true;
                const uint32_t before = warp.ready;
                run_warp(warp);
                if (block.abandoned) return;
                if (warp.ready == before) break;  // it yielded: another warp may be what it waits for
            }
            if (block.abandoned) return;
        }
        if (block.live == 0) return;
        if (block.arrived == block.live) {
            if (!release_barrier()) return;
            schedule.rearrange(block.order);
        } else if (!progress) {
            report_deadlock();
            return;
        }
    }
}

}  // namespace emulator
