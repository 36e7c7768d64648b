#include "barrier.h"

#include <map>
#include <string>

#include "../include/emulator/operations.h"
#include "fault.h"
#include "scheduler.h"
#include "steps.h"
#include "warp.h"
#include "watch.h"

namespace emulator {
namespace {

int result_of_barrier() {
    switch (block.barrier_operation) {
        case __EMULATOR_BARRIER_COUNT: return block.count;
        case __EMULATOR_BARRIER_AND: return block.count == block.live;
        case __EMULATOR_BARRIER_OR: return block.count != 0;
        default: return 0;
    }
}

// "threads 0-31, 64 wait at softmax.cu:12; threads ..." for the threads at barriers.
std::string arrivals(Site* first) {
    std::map<std::pair<Site, int>, std::vector<int>> groups;
    for (const Warp& warp : block.warps) {
        for (uint32_t lanes = warp.barrier; lanes != 0; lanes &= lanes - 1) {
            const Thread& thread = warp.threads[__builtin_ctz(lanes)];
            groups[{Site{thread.file, thread.line}, thread.barrier}].push_back(rank_of(&thread));
        }
    }
    std::string text;
    for (const auto& [key, ranks] : groups) {
        if (text.empty()) *first = key.first;
        text += text.empty() ? "" : "; ";
        text += ranges("thread", ranks) + (ranks.size() == 1 ? " waits at " : " wait at ") + key.first.text();
    }
    return text;
}

}  // namespace

bool release_barrier() {
    if (block.mixed) {
        Site site;
        const std::string who = arrivals(&site);
        record(Kind::divergent_barrier, site,
               "threads of one block wait at different __syncthreads(): " + who + ". Every thread of a block must reach the"
               " same barrier; move it out of the branch. (" + block_name() + ")");
        return false;
    }
    if (__builtin_expect(watchers != 0, 0)) watch_barrier();
    block.barrier_result = result_of_barrier();
    block.arrived = 0;
    for (Warp& warp : block.warps) {
        warp.ready |= warp.barrier;
        warp.barrier = 0;
        warp.turn = schedule.before_first();
    }
    return true;
}

void report_deadlock() {
    for (const Warp& warp : block.warps) {
        if (warp.waiting != 0) {
            report_stuck_warp(warp);
            return;
        }
    }
    Site site;
    const std::string who = arrivals(&site);
    record(Kind::deadlock, site, "deadlock: " + who + ", and the others never get there. (" + block_name() + ")");
}

}  // namespace emulator

using namespace emulator;

extern "C" int __emulator_barrier(int operation, int predicate, int id, int line, const char* file) {
    Thread* thread = current;
    if (__builtin_expect(thread == nullptr, 0)) {
        host_called("__syncthreads()", line, file);
        return 0;
    }
    Warp& warp = warp_of(thread);
    take_step();
    if (block.arrived == 0) {
        block.barrier_id = id;
        block.barrier_operation = operation;
        block.mixed = false;
        block.count = 0;
    } else if (block.barrier_id != id) {
        block.mixed = true;
    }
    thread->file = file;
    thread->line = line;
    thread->barrier = id;
    block.count += predicate;
    ++block.arrived;
    warp.ready &= ~bit_of(thread);
    warp.barrier |= bit_of(thread);
    wait(thread, warp);
    return block.barrier_result;
}

extern "C" void __emulator_fence(int scope) {
    if (watchers != 0 && current != nullptr) watch_fence(scope);
}
