#include "check_streams.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "../include/emulator/control.h"
#include "../include/emulator/runtime_api.h"
#include "check_order.h"
#include "check_race.h"
#include "early.h"
#include "findings.h"
#include "launch.h"

namespace emulator::checker {

bool streams_are_unordered = false;

namespace {

// How much of each stream's work is known to be done: a vector clock.
class Clock {
public:
    uint32_t of(size_t stream) const { return stream < counts_.size() ? counts_[stream] : 0; }
    uint32_t count(size_t stream) {
        if (counts_.size() <= stream) counts_.resize(stream + 1);
        return ++counts_[stream];
    }
    void join(const Clock& other) {
        if (counts_.size() < other.counts_.size()) counts_.resize(other.counts_.size());
        for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] = std::max(counts_[i], other.counts_[i]);
    }

private:
    std::vector<uint32_t> counts_;
};

struct Stream {
    bool blocking;  // it waits for the default stream, and that for it
    Clock clock;
};

// A launch or a transfer.
struct Operation {
    uint32_t interval;
    size_t stream;
    uint32_t number;
    Site site;
    const char* what;
    char* begin;  // of a transfer
    size_t size;
    bool write;
    std::vector<const Allocation*> arrays;  // named ones that a launch has touched
};

constexpr size_t kDefault = 0;

struct State {
    std::vector<Stream> streams{Stream{true, {}}};
    std::map<const void*, size_t> number_of;
    std::map<const void*, Clock> events;
    Clock host;  // what host code has waited for
    std::vector<Operation> operations;  // by interval
    Clock running;  // of the operation that runs
    // What a program around the emulator has said of a call:
    bool in_call = false;
    size_t stream_of_call = 0;
    uint32_t produced = 0;  // number of the work on that stream that makes the inputs
    size_t first_of_call = 0;
};
EMULATOR_EARLY State state;

bool is_default(const void* stream) { return stream == nullptr || stream == cudaStreamLegacy; }

size_t number_of(const void* stream) {
    if (is_default(stream)) return kDefault;
    const auto [at, is_new] = state.number_of.try_emplace(stream, state.streams.size());
    if (is_new) state.streams.push_back({true, {}});
    return at->second;
}

// What work that is put on the stream now comes after.
Clock& arrive(size_t number) {
    Stream& stream = state.streams[number];
    stream.clock.join(state.host);
    if (number == kDefault) {
        for (const Stream& other : state.streams) {
            if (other.blocking) stream.clock.join(other.clock);
        }
    } else if (stream.blocking) {
        stream.clock.join(state.streams[kDefault].clock);
    }
    return stream.clock;
}

bool is_done(const Operation& operation, const Clock& clock) { return clock.of(operation.stream) >= operation.number; }

Operation& begin_operation(const void* stream, const Site& site, const char* what) {
    const size_t number = number_of(stream);
    Clock& clock = arrive(number);
    const uint32_t count = clock.count(number);
    state.running = clock;
    state.operations.push_back({now.interval, number, count, site, what, nullptr, 0, false, {}});
    streams_are_unordered = false;
    for (size_t other = 0; other < state.streams.size(); ++other) {
        if (state.streams[other].clock.of(other) > clock.of(other)) streams_are_unordered = true;
    }
    return state.operations.back();
}

std::string stream_name(size_t stream) {
    if (stream == kDefault) return "the default stream";
    const bool given = state.in_call && stream == state.stream_of_call;
    return given ? "the stream that the launcher was given" : "another stream";
}

std::string name_of(const Allocation* allocation) {
    return allocation == nullptr || allocation->name.empty() ? "memory" : "`" + allocation->name + "`";
}

constexpr const char* kRemedy =
    ", and nothing makes the one wait for the other. Use one stream for both, or cudaEventRecord() and"
    " cudaStreamWaitEvent()";

// `mine` touches what `other` touches, in no order.
void report(const Operation& mine, const Operation& other, const Allocation* allocation, Place other_place) {
    const Place place{nullptr, mine.site};
    if (found_again("race_streams", place, allocation)) return;
    const std::string name = name_of(allocation);
    add_finding({Severity::error, "race_streams", place, name,
                 std::string("this ") + mine.what + " on " + stream_name(mine.stream) + " and the " + other.what +
                     " at " + kOther + " on " + stream_name(other.stream) + " both touch " + name + kRemedy,
                 other_place});
}

// The work of a call must come after its inputs are there, and before its outputs are taken away.
void report_call(const Operation& mine, const Allocation* allocation, const char* when) {
    const Place place{nullptr, mine.site};
    if (found_again("race_streams", place, allocation)) return;
    const std::string name = name_of(allocation);
    add_finding({Severity::error, "race_streams", place, name,
                 std::string("this ") + mine.what + " on " + stream_name(mine.stream) + " touches " + name + when +
                     " the stream that the launcher was given, and nothing makes the one wait for the other. Launch on"
                     " that stream", {}});
}

bool before_inputs(const Clock& clock) { return state.in_call && clock.of(state.stream_of_call) < state.produced; }

void touch_array(Operation& operation, const Clock& clock, const Allocation& allocation) {
    operation.arrays.push_back(&allocation);
    if (before_inputs(clock)) report_call(operation, &allocation, ", which is still being made on");
}

const Operation* operation_at(uint32_t interval) {
    auto after = std::upper_bound(state.operations.begin(), state.operations.end(), interval,
                                  [](uint32_t at, const Operation& operation) { return at < operation.interval; });
    return after == state.operations.begin() ? nullptr : &*std::prev(after);
}

// A transfer comes after kernels that it should have waited for.
void check_cells(const Operation& mine, char* begin, size_t size, bool write) {
    for (char* word = begin; word < begin + size; word += 4) {
        const Shadow* shadow = known_shadow(word);
        if (shadow == nullptr) continue;
        const Cell& cell = shadow->cell(word);
        for (const Stamp stamp : {cell.write, write ? cell.read : Stamp()}) {
            const Operation* other = stamp.interval() == 0 ? nullptr : operation_at(stamp.interval());
            if (other == nullptr || is_done(*other, state.running)) continue;
            report(mine, *other, heap.find(begin), {nullptr, other->site});
            return;
        }
    }
}

// Allocations of one line and size that were made in several calls, the last one among them, and are still there.
void find_leaks(unsigned call) {
    std::map<std::tuple<std::string, int, size_t>, std::vector<const Allocation*>> kept;
    for (const auto& [begin, allocation] : heap.allocations()) {
        if (allocation.freed || allocation.call == 0 || allocation.site.file == nullptr) continue;
        auto& same = kept[{allocation.site.file, allocation.site.line, allocation.size}];
        if (same.empty() || same.back()->call != allocation.call) same.push_back(&allocation);
    }
    for (const auto& [key, same] : kept) {
        const Place place{nullptr, same.front()->site};
        const std::string bytes = std::to_string(std::get<2>(key));
        if (same.size() < 3 || same.back()->call != call || found_again("leak", place, nullptr)) continue;
        add_finding({Severity::warning, "leak", place, "",
                     "each call allocates " + bytes + " bytes here, and nobody frees them: " +
                         std::to_string(same.size()) + " calls have done so", {}});
    }
}

}  // namespace

void stream_made(const void* stream, bool blocking) {
    state.number_of[stream] = state.streams.size();
    state.streams.push_back({blocking, {}});
}
// Its number is not used again: its work may not be done yet.
void stream_gone(const void* stream) { state.number_of.erase(stream); }

void wait_for_stream(const void* stream) { state.host.join(arrive(number_of(stream))); }
void wait_for_event(const void* event) { state.host.join(state.events[event]); }
void wait_for_device() {
    for (const Stream& stream : state.streams) state.host.join(stream.clock);
    if (!state.in_call) state.operations.clear();
}
void record_event(const void* event, const void* stream) { state.events[event] = arrive(number_of(stream)); }
void make_stream_wait(const void* stream, const void* event) { arrive(number_of(stream)).join(state.events[event]); }
void forget_event(const void* event) { state.events.erase(event); }

void order_launch(const void* stream, const Site& site) { begin_operation(stream, site, "kernel"); }

void order_transfer(const void* stream, const Site& site, char* begin, size_t size, bool write) {
    ++now.interval;
    Operation& mine = begin_operation(stream, site, write ? "write" : "copy");
    mine.begin = begin;
    mine.size = size;
    mine.write = write;
    const Allocation* allocation = heap.find(begin);
    if (allocation != nullptr && allocation->is_array) touch_array(mine, state.running, *allocation);
    if (streams_are_unordered) check_cells(mine, begin, size, write);
}

void check_streams(const Context& context, Stamp other, uint16_t other_site) {
    if (context.stamp.is_atomic() && other.is_atomic()) return;
    const Operation* operation = operation_at(other.interval());
    if (operation == nullptr || is_done(*operation, state.running)) return;
    report(state.operations.back(), *operation, heap.find(context.access->address), {instruction_of(other_site), {}});
}

void check_transfers(const Context& context) {
    const char* begin = context.access->address;
    for (const Operation& operation : state.operations) {
        const bool apart = begin >= operation.begin + operation.size || begin + context.access->size <= operation.begin;
        if (operation.begin == nullptr || apart || is_done(operation, state.running)) continue;
        if (!operation.write && context.touch == Touch::read) continue;
        report(state.operations.back(), operation, heap.find(begin), {nullptr, operation.site});
    }
}

void first_touch(Allocation& allocation) {
    allocation.touched_in = now.launch;
    if (allocation.is_array) touch_array(state.operations.back(), state.running, allocation);
}

void forget_order() {
    state.in_call = false;
    wait_for_device();
    streams_are_unordered = false;
    ++now.interval;
}

}  // namespace emulator::checker

using namespace emulator;
using namespace emulator::checker;

extern "C" void emu_inputs_ready_on(void* stream) {
    heap.begin_call();
    if ((watchers & kChecks) == 0) return;
    ++now.interval;
    state.in_call = true;
    state.stream_of_call = number_of(stream);
    state.first_of_call = state.operations.size();
    begin_operation(stream, Site{}, "work that makes the inputs");
    state.produced = state.operations.back().number;
}

static void check_outputs(const void* stream) {
    const Clock& clock = arrive(number_of(stream));
    for (size_t i = state.first_of_call; i < state.operations.size(); ++i) {
        const Operation& operation = state.operations[i];
        if (is_done(operation, clock)) continue;
        for (const Allocation* array : operation.arrays) report_call(operation, array, ", which is taken away on");
    }
    state.in_call = false;
}

extern "C" void emu_outputs_taken_on(void* stream) {
    if ((watchers & kChecks) != 0) add_unchecked_error();  // the caller asks for errors next
    if ((watchers & kChecks) != 0 && state.in_call) check_outputs(stream);
    find_leaks(heap.end_call());  // of calls that nobody watched, too
}
