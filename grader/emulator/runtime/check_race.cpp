#include "check_race.h"

#include <cstring>
#include <string>
#include <vector>

#include "check_order.h"
#include "check_streams.h"
#include "findings.h"
#include "memory.h"
#include "shared.h"

namespace emulator::checker {

bool write_is_pending = false;

namespace {

struct Sites {
    static constexpr size_t kSlots = 1 << 14;
    struct {
        const void* instruction;
        uint16_t number;
    } slots[kSlots];
    std::vector<const void*> instructions{nullptr};  // by number; 0 stands for one that is not known
    std::vector<bool> looks{false};                  // reads after which a thread went on to an atomic
};
Sites& sites = *new Sites{};

// A write whose value is not there yet.
struct PendingWrite {
    Context context;
    Access access;
    Stamp other;
    uint16_t other_site;
    unsigned char before[16];
};
PendingWrite pending;

// A plain read that races with an atomic, or the other way round.
struct Look {
    Context context;
    Access access;
    Stamp other;
    uint16_t other_site;

    bool is_read() const { return context.touch == Touch::read; }
    uint16_t site_of_read() const { return is_read() ? context.site : other_site; }
};
std::vector<Look>& looks = *new std::vector<Look>;
constexpr size_t kLooks = 1024;

const char* verb(Touch touch) {
    switch (touch) {
        case Touch::read: return "read";
        case Touch::write: return "write";
        default: return "atomic update";
    }
}

const char* missing(const char* kind) {
    if (std::strcmp(kind, "race_warp") == 0) return ", with no __syncwarp() or __syncthreads() between";
    if (std::strcmp(kind, "race_blocks") == 0) {
        return ". Blocks run in any order and at the same time: use an atomic, give each element to one block, or"
               " publish it with __threadfence() and an atomic";
    }
    return ", with no __syncthreads() between";
}

const char* kind_of_race(const Context& context, Stamp other) {
    if (other.interval() < now.block) return "race_blocks";
    if (other.thread() / kWarpSize == context.thread->warp) return "race_warp";
    return context.shared ? "race_shared" : "race_global";
}

void report(const Context& context, Severity severity, const char* kind, const char* race, Touch other_touch,
            Stamp other, uint16_t other_site) {
    const Place place{context.access->instruction, {}};
    if (found_again(kind, place, context.buffer)) return;
    const bool same_block = other.interval() >= now.block;
    std::string message = std::string(severity == Severity::error ? "race on " : "") + describe_place(context) + ": " +
                          verb(context.touch) + " of " + std::to_string(context.access->size) + " bytes by " +
                          thread_name(*context.thread) + ", and " + verb(other_touch) + " at " + kOther + " by " +
                          thread_of(other) + (same_block ? " of the same block" : "") + missing(race);
    if (std::strcmp(kind, "same_value_race") == 0) message += ". Both write the same value";
    add_finding({severity, kind, place, describe_place(context).substr(0, describe_place(context).find('+')),
                 message, {instruction_of(other_site), {}}});
}

// Keeps what is needed until the write is done. One at a time is enough: it is done before anything else is told.
void keep_write(const Context& context, Stamp other, uint16_t other_site) {
    if (write_is_pending || context.access->size > sizeof pending.before) return;
    pending.context = context;
    pending.access = *context.access;
    pending.context.access = &pending.access;
    pending.other = other;
    pending.other_site = other_site;
    std::memcpy(pending.before, context.access->address, context.access->size);
    write_is_pending = true;
}

// The thread goes on to an atomic on what it has looked at, as in a loop of atomicCAS().
void forget_looks(const Context& context) {
    for (size_t i = looks.size(); i-- > 0;) {
        const Look& look = looks[i];
        const bool same = look.context.thread == context.thread && look.access.address == context.access->address;
        if (!same || !look.is_read()) continue;
        sites.looks[look.context.site] = true;
        looks.erase(looks.begin() + static_cast<ptrdiff_t>(i));
    }
}

// Flags and atomics are there to be accessed by several threads. A volatile variable of one value is a flag; so
// is what a thread writes after a fence. For volatile accesses of several blocks nothing better can be asked for.
bool is_meant(const Context& context, Stamp other) {
    const Stamp mine = context.stamp;
    const bool both = (mine.is_atomic() || mine.is_volatile()) && (other.is_atomic() || other.is_volatile());
    return both && (mine.is_atomic() || other.is_atomic() || context.scalar || other.interval() < now.block);
}

// A plain read beside atomics may be meant, as a cheap look before one.
bool is_mixed(Touch one, Touch other) {
    return (one == Touch::read && other == Touch::atomic) || (one == Touch::atomic && other == Touch::read);
}

__attribute__((noinline)) void conflict(const Context& context, Touch other_touch, Stamp other, uint16_t other_site) {
    if (is_meant(context, other)) return;
    const bool flag = other.is_volatile();
    if (other_touch == Touch::write && other.is_atomic() && !flag) other_touch = Touch::atomic;
    const char* kind = kind_of_race(context, other);
    if (context.touch == Touch::write && other_touch == Touch::write) {
        keep_write(context, other, other_site);
    } else if (is_mixed(context.touch, other_touch)) {
        if (looks.size() < kLooks) looks.push_back({context, *context.access, other, other_site});
    } else {
        report(context, Severity::error, kind, kind, other_touch, other, other_site);
    }
}

inline void check_against(const Context& context, Touch other_touch, Stamp other, uint16_t other_site, unsigned mask) {
    if (!other.touches(mask)) return;
    if (other.interval() < context.floor) {
        if (__builtin_expect(streams_are_unordered && !context.shared, 0)) check_streams(context, other, other_site);
        return;
    }
    if (!happened_before(other, *context.thread)) conflict(context, other_touch, other, other_site);
}

// Two readers are enough: a write by anybody races with one of them if it races with any. They are of
// different threads, and of different warps if such have read.
inline void remember_read(const Context& context, Cell& cell, unsigned mask) {
    const Stamp mine = context.stamp.of_bytes(mask);
    const Stamp first = cell.read;
    if (first.interval() >= context.floor && first.interval() != 0) {
        if (!happened_before(first, *context.thread)) {
            if (first.interval() != now.interval) return;  // another block's: it races with all writes of this one
            const Stamp second = Stamp::joined(now.interval, cell.second);
            const unsigned warp = first.thread() / kWarpSize;
            const bool better = cell.second == 0 || second.thread() == mine.thread() ||
                                (second.thread() / kWarpSize == warp && context.thread->warp != warp);
            if (better) cell.second = mine.rest();
            return;
        }
        if (first.interval() == now.interval && first.thread() != mine.thread() && cell.second != 0 &&
            !happened_before(Stamp::joined(now.interval, cell.second), *context.thread)) {
            cell.read = Stamp::joined(now.interval, cell.second);
            cell.second = mine.rest();
            return;
        }
        if (first.interval() == now.interval && first.thread() == mine.thread()) {
            cell.read = first.touches(15 & ~mask) ? first.of_bytes(mask) : mine;
            cell.read_site = context.site;
            return;
        }
    }
    cell.read = mine;
    cell.second = 0;
    cell.read_site = context.site;
}

// Whether the last write is worth more than an atomic that follows: atomics do not race with each other, but
// a plain write before them may race with those of other threads, and one atomic with another thread's read.
inline bool says_more(const Context& context, Stamp write, unsigned mask) {
    if (!write.touches(mask) || write.interval() < context.floor) return false;
    const bool atomic = write.is_atomic() && !write.is_volatile();
    if (write.interval() != now.interval) return !atomic && !context.shared && write.interval() >= now.block;
    if (write.thread() == context.stamp.thread()) return !atomic;
    return !happened_before(write, *context.thread);
}

inline void check_reads(const Context& context, Cell& cell, unsigned mask) {
    if (cell.read.interval() == 0) return;
    const Stamp second = Stamp::joined(cell.read.interval(), cell.second);
    if (context.touch == Touch::atomic && cell.read.interval() == now.interval) {
        // A thread that has looked itself before its atomic: so do the others.
        const unsigned mine = context.stamp.thread();
        if (cell.read.thread() == mine || (cell.second != 0 && second.thread() == mine)) {
            sites.looks[cell.read_site] = true;
            return;
        }
    }
    check_against(context, Touch::read, cell.read, cell.read_site, mask);
    if (cell.second != 0) check_against(context, Touch::read, second, cell.read_site, mask);
}

}  // namespace

Context context_of(const Access& access, const Thread& thread, bool shared, const void* buffer, size_t size) {
    const Touch touch = access.atomic ? Touch::atomic : access.write ? Touch::write : Touch::read;
    Stamp stamp = stamp_of(thread);
    if (access.atomic) stamp = stamp.as_atomic();
    if (access.is_volatile) {
        stamp = stamp.as_volatile();
        if (access.write && has_fenced(thread)) stamp = stamp.as_atomic();
    }
    const uint32_t floor = shared ? now.block : now.launch;
    return {&access, &thread, touch, stamp, site_of(access.instruction), shared, floor, buffer, size <= sizeof(double)};
}

void check_word(const Context& context, Cell& cell, unsigned mask) {
    if (cell.write.interval() != 0) check_against(context, Touch::write, cell.write, cell.write_site, mask);
    if (context.touch == Touch::read) {
        remember_read(context, cell, mask);
        return;
    }
    check_reads(context, cell, mask);
    if (__builtin_expect(!looks.empty(), 0) && context.touch == Touch::atomic) forget_looks(context);
    if (context.touch != Touch::atomic || !says_more(context, cell.write, mask)) {
        cell.write = context.stamp.of_bytes(mask);
        cell.write_site = context.site;
    }
    if (mask == 15 || cell.read.touches(mask)) {
        cell.read = Stamp();
        cell.second = 0;
    }
}

void settle_write() {
    write_is_pending = false;
    const Context& context = pending.context;
    const char* kind = kind_of_race(context, pending.other);
    const bool same = std::memcmp(pending.before, pending.access.address, pending.access.size) == 0;
    report(context, same ? Severity::warning : Severity::error, same ? "same_value_race" : kind, kind, Touch::write,
           pending.other, pending.other_site);
}

void settle_looks() {
    for (Look& look : looks) {
        if (sites.looks[look.site_of_read()]) continue;
        look.context.access = &look.access;
        const char* race = kind_of_race(look.context, look.other);
        if (look.context.shared) {  // a barrier is missing: whoever reads wants the sum
            report(look.context, Severity::error, race, race, look.is_read() ? Touch::atomic : Touch::read,
                   look.other, look.other_site);
            continue;
        }
        report(look.context, Severity::warning, "mixed_atomic", race,
               look.is_read() ? Touch::atomic : Touch::read, look.other, look.other_site);
    }
    looks.clear();
}

uint16_t site_of(const void* instruction) {
    auto& slot = sites.slots[reinterpret_cast<uintptr_t>(instruction) % Sites::kSlots];
    if (__builtin_expect(slot.instruction == instruction, 1)) return slot.number;
    uint16_t number = 0;
    while (number < sites.instructions.size() && sites.instructions[number] != instruction) ++number;
    if (number == sites.instructions.size()) {
        if (sites.instructions.size() == 0xffff) return 0;
        sites.instructions.push_back(instruction);
        sites.looks.push_back(false);
    }
    slot = {instruction, number};
    return number;
}

const void* instruction_of(uint16_t site) { return sites.instructions[site]; }

// "(3,0,0)" for the place of a linear number in a box.
static std::string coordinates(uint64_t number, const uint3& box) {
    const uint64_t row = number / box.x;
    return "(" + std::to_string(number % box.x) + "," + std::to_string(row % box.y) + "," +
           std::to_string(row / box.y) + ")";
}

std::string thread_of(Stamp stamp) {
    const std::string thread = "thread " + coordinates(stamp.thread(), blockDim);
    if (stamp.interval() >= now.block) return thread;
    return thread + " of block " + coordinates(block_of(stamp.interval()), gridDim);
}

std::string describe_place(const Context& context) {
    const char* address = context.access->address;
    if (context.shared) {
        const SharedArray& array = *static_cast<const SharedArray*>(context.buffer);
        const std::string offset = "+" + std::to_string(address - array.begin);
        return array.name[0] == '`' ? "shared memory " + array.name + offset : array.name + " " + offset;
    }
    if (const Allocation* allocation = heap.find(address)) {
        const std::string name = allocation->name.empty() ? "an allocation" : "`" + allocation->name + "`";
        return "global memory " + name + "+" + std::to_string(address - allocation->shown_begin);
    }
    return "the device variable " + describe_variable(address);
}

}  // namespace emulator::checker
