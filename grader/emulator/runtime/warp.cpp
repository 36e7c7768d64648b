#include "warp.h"

#include <algorithm>
#include <string>

#include "../include/emulator/operations.h"
#include "fault.h"
#include "scheduler.h"
#include "steps.h"
#include "watch.h"

namespace emulator {
namespace {

const char* const kNames[] = {"__shfl_sync",       "__shfl_up_sync",    "__shfl_down_sync",  "__shfl_xor_sync",
                              "__syncwarp",        "__ballot_sync",     "__any_sync",        "__all_sync",
                              "__match_any_sync",  "__match_all_sync",  "__reduce_add_sync", "__reduce_min_sync",
                              "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync",
                              "__reduce_or_sync",  "__reduce_xor_sync"};

bool is_shuffle(int operation) { return operation <= __EMULATOR_SHFL_XOR; }

std::string call_name(const Thread& thread) {
    return std::string(kNames[thread.operation]) + "(" + hexadecimal(thread.mask) + ")";
}

// The lane whose value `lane` gets; its own where CUDA says so.
int source_lane(const Thread& thread) {
    const int lane = thread.lane;
    const int width = thread.width;
    const int first = lane & ~(width - 1);
    int source = lane;
    switch (thread.operation) {
        case __EMULATOR_SHFL: return first + (thread.source & (width - 1));
        case __EMULATOR_SHFL_UP: source = lane - thread.source; return source < first ? lane : source;
        case __EMULATOR_SHFL_DOWN: source = lane + thread.source; return source >= first + width ? lane : source;
        default: source = lane ^ thread.source; return source >= first + width || source < 0 ? lane : source;
    }
}

// A value that shows: NaN as a float, -1 as an integer.
constexpr uint64_t kUndefined = ~uint64_t{0};

uint64_t undefined_value(const Warp& warp, const Thread& thread, int source) {
    const uint32_t bit = uint32_t{1} << source;
    if ((warp.present & thread.mask & bit) != 0 && (warp.live & bit) == 0) {
        record(Kind::shuffle, Site{thread.file, thread.line},
               call_name(thread) + ": " + thread_name(thread) + " reads from lane " + std::to_string(source) +
                   ", which has already returned from the kernel, so the value is undefined. Let all threads of"
                   " the warp take part, for example with a neutral value, instead of returning early");
        return kUndefined;
    }
    note(Site{thread.file, thread.line},
         call_name(thread) + ": lane " + std::to_string(thread.lane) + " reads from lane " + std::to_string(source) +
             ((warp.present & bit) == 0 ? ", which does not exist in this block" : ", which is not in the mask") +
             ": CUDA leaves the value undefined (here it is NaN, or -1)");
    return kUndefined;
}

void shuffle(Warp& warp, uint32_t lanes) {
    uint64_t values[kWarpSize];
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        const Thread& thread = warp.threads[lane];
        const int source = source_lane(thread);
        values[lane] = lanes >> source & 1 ? warp.threads[source].value : undefined_value(warp, thread, source);
    }
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        warp.threads[lane].value = values[lane];
    }
}

// All lanes take part and move by the same distance: the usual case.
bool shuffle_all(Warp& warp, const Thread& thread) {
    const int distance = thread.source;
    if (thread.width != kWarpSize || static_cast<unsigned>(distance) >= kWarpSize) return false;
    Thread* threads = warp.threads;
    for (int lane = 0; lane < kWarpSize; ++lane) {
        if (threads[lane].source != distance || threads[lane].width != kWarpSize) return false;
    }
    if (thread.operation == __EMULATOR_SHFL_XOR) {
        for (int lane = 0; lane < kWarpSize; ++lane) {
            if ((lane ^ distance) > lane) std::swap(threads[lane].value, threads[lane ^ distance].value);
        }
    } else if (thread.operation == __EMULATOR_SHFL_DOWN) {
        for (int lane = 0; lane + distance < kWarpSize; ++lane) threads[lane].value = threads[lane + distance].value;
    } else if (thread.operation == __EMULATOR_SHFL_UP) {
        for (int lane = kWarpSize - 1; lane >= distance; --lane) threads[lane].value = threads[lane - distance].value;
    } else {
        for (int lane = 0; lane < kWarpSize; ++lane) {
            if (lane != distance) threads[lane].value = threads[distance].value;
        }
    }
    return true;
}

uint32_t combine(int operation, uint32_t a, uint32_t b) {
    switch (operation) {
        case __EMULATOR_REDUCE_ADD: return a + b;
        case __EMULATOR_REDUCE_MIN: return static_cast<uint32_t>(std::min(static_cast<int>(a), static_cast<int>(b)));
        case __EMULATOR_REDUCE_MAX: return static_cast<uint32_t>(std::max(static_cast<int>(a), static_cast<int>(b)));
        case __EMULATOR_REDUCE_UMIN: return std::min(a, b);
        case __EMULATOR_REDUCE_UMAX: return std::max(a, b);
        case __EMULATOR_REDUCE_AND: return a & b;
        case __EMULATOR_REDUCE_OR: return a | b;
        default: return a ^ b;
    }
}

void match_any(Warp& warp, uint32_t lanes) {
    uint32_t left = lanes;
    while (left != 0) {
        const uint64_t value = warp.threads[__builtin_ctz(left)].value;
        uint32_t same = 0;
        for (uint32_t rest = left; rest != 0; rest &= rest - 1) {
            if (warp.threads[__builtin_ctz(rest)].value == value) same |= rest & -rest;
        }
        for (uint32_t rest = same; rest != 0; rest &= rest - 1) warp.threads[__builtin_ctz(rest)].value = same;
        left &= ~same;
    }
}

// What every lane of `lanes` gets from a vote, a reduction or __match_all_sync.
uint64_t collect(const Warp& warp, uint32_t lanes, int operation) {
    uint32_t votes = 0;
    bool same = true;
    const uint64_t first = warp.threads[__builtin_ctz(lanes)].value;
    auto reduced = static_cast<uint32_t>(first);
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const uint64_t value = warp.threads[__builtin_ctz(rest)].value;
        if (value != 0) votes |= rest & -rest;
        same = same && value == first;
        if (rest != lanes) reduced = combine(operation, reduced, static_cast<uint32_t>(value));
    }
    switch (operation) {
        case __EMULATOR_BALLOT: return votes;
        case __EMULATOR_ANY: return votes != 0;
        case __EMULATOR_ALL: return votes == lanes;
        case __EMULATOR_MATCH_ALL: return same ? lanes : 0;
        default: return reduced;
    }
}

// All lanes that the operation waits for are there: gives them their results and makes them ready.
void complete(Warp& warp, uint32_t lanes, const Thread& thread) {
    const int operation = thread.operation;
    if (__builtin_expect(watchers != 0, 0)) watch_warp_operation(warp, lanes, operation, operation == __EMULATOR_SYNCWARP);
    if (is_shuffle(operation)) {
        if (lanes != ~uint32_t{0} || !shuffle_all(warp, thread)) shuffle(warp, lanes);
    } else if (operation == __EMULATOR_MATCH_ANY) {
        match_any(warp, lanes);
    } else if (operation != __EMULATOR_SYNCWARP) {
        const uint64_t result = collect(warp, lanes, operation);
        for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) warp.threads[__builtin_ctz(rest)].value = result;
    }
    warp.waiting &= ~lanes;
    warp.ready |= lanes;
}

// Lanes that wait in the same operation with the same mask as `thread`.
uint32_t peers(const Warp& warp, const Thread& thread) {
    if (warp.uniform) return warp.waiting;
    uint32_t same = 0;
    for (uint32_t rest = warp.waiting; rest != 0; rest &= rest - 1) {
        const Thread& other = warp.threads[__builtin_ctz(rest)];
        if (other.operation == thread.operation && other.mask == thread.mask) same |= rest & -rest;
    }
    return same;
}

// Completes the operation of `thread` if all live lanes of its mask are in it.
inline bool try_complete(Warp& warp, const Thread& thread) {
    const uint32_t needed = thread.mask & warp.live;
    if ((needed & ~warp.waiting) != 0) return false;
    const uint32_t there = peers(warp, thread);
    if ((needed & ~there) != 0) return false;
    complete(warp, there & thread.mask, thread);
    return true;
}

bool settle_active(Warp& warp) {
    const Thread& first = warp.threads[__builtin_ctz(warp.active)];
    uint32_t together = 0;
    for (uint32_t rest = warp.active; rest != 0; rest &= rest - 1) {
        const Thread& other = warp.threads[__builtin_ctz(rest)];
        if (other.line == first.line && other.file == first.file) together |= rest & -rest;
    }
    for (uint32_t rest = together; rest != 0; rest &= rest - 1) warp.threads[__builtin_ctz(rest)].value = together;
    warp.active &= ~together;
    warp.ready |= together;
    return true;
}

[[noreturn]] void misuse(const Thread& thread, const std::string& what) {
    fault(Kind::shuffle, Site{thread.file, thread.line}, call_name(thread) + ": " + what + " (" + thread_name(thread) + ")");
}

void check_arguments(const Thread& thread, int width) {
    if ((thread.mask & bit_of(&thread)) == 0) {
        misuse(thread, "lane " + std::to_string(thread.lane) + " calls it but is not in its own mask");
    }
    if (width <= 0 || width > kWarpSize || (width & (width - 1)) != 0) {
        misuse(thread, "the width is " + std::to_string(width) + ", but must be 1, 2, 4, 8, 16 or 32");
    }
}

}  // namespace

bool settle_warp(Warp& warp) {
    for (uint32_t rest = warp.waiting; rest != 0; rest &= rest - 1) {
        if (try_complete(warp, warp.threads[__builtin_ctz(rest)])) return !block.abandoned;
    }
    return warp.active != 0 && settle_active(warp);
}

void report_stuck_warp(const Warp& warp) {
    const Thread& thread = warp.threads[__builtin_ctz(warp.waiting)];
    const uint32_t missing = thread.mask & warp.live & ~peers(warp, thread);
    std::string why;
    if (missing != 0) {
        const Thread& other = warp.threads[__builtin_ctz(missing)];
        const Site site{other.file, other.line};
        why = "lane " + std::to_string(other.lane) + " is in the mask but ";
        why += (warp.barrier & bit_of(&other)) != 0 ? "waits at __syncthreads() in " + site.text()
                                                    : "is in " + call_name(other) + " at " + site.text();
    }
    record(Kind::shuffle, Site{thread.file, thread.line},
           call_name(thread) + " never completes: " + why + ". All lanes named in the mask must execute it; call it outside"
           " the branch, or name only the lanes that take it. (" + thread_name(thread) + " waits)");
}

}  // namespace emulator

using namespace emulator;

extern "C" unsigned long long __emulator_warp(int code, unsigned mask, unsigned long long value, int source, int line,
                                              const char* file) {
    Thread* thread = current;
    if (__builtin_expect(thread == nullptr, 0)) {
        host_called(kNames[code & 0xff], line, file);
        return value;
    }
    Warp& warp = warp_of(thread);
    const uint32_t bit = bit_of(thread);
    const int width = code >> 8;
    take_step();
    thread->file = file;
    thread->line = line;
    thread->mask = mask;
    thread->value = value;
    thread->source = source;
    thread->operation = static_cast<uint8_t>(code & 0xff);
    thread->width = static_cast<uint8_t>(width);
    if (__builtin_expect((mask & bit) == 0 || width <= 0 || width > kWarpSize || (width & (width - 1)) != 0, 0)) {
        check_arguments(*thread, width);
    }
    if (warp.waiting == 0) {
        warp.uniform = true;
        warp.shared_mask = mask;
        warp.shared_operation = thread->operation;
    } else if (warp.shared_mask != mask || warp.shared_operation != thread->operation) {
        warp.uniform = false;
    }
    warp.ready &= ~bit;
    warp.waiting |= bit;
    if (try_complete(warp, *thread)) {
        if (__builtin_expect(block.abandoned, 0)) leave();
        return thread->value;
    }
    wait(thread, warp);
    return thread->value;
}

extern "C" unsigned __emulator_active_mask(int line, const char* file) {
    Thread* thread = current;
    if (thread == nullptr) {
        host_called("__activemask()", line, file);
        return 1;
    }
    Warp& warp = warp_of(thread);
    take_step();
    thread->file = file;
    thread->line = line;
    warp.ready &= ~bit_of(thread);
    warp.active |= bit_of(thread);
    wait(thread, warp);
    return static_cast<unsigned>(thread->value);
}
