#include "check_memory.h"

#include <algorithm>
#include <string>

#include "check_order.h"
#include "check_race.h"
#include "check_shadow.h"
#include "check_streams.h"
#include "findings.h"
#include "lines.h"
#include "memory.h"
#include "shared.h"
#include "stacks.h"
#include "symbols.h"

extern "C" char* __emulator_dynamic_shared(void);

namespace emulator::checker {
namespace {

// Copies of more than this are of structures, which may have holes in them.
constexpr size_t kLargestValue = 16;

std::string verb(const Access& access) { return access.atomic ? "atomic update" : access.write ? "write" : "read"; }

std::string by(const Thread& thread) { return " (" + thread_name(thread) + ")"; }

void report(const Access& access, const char* kind, const void* buffer, const std::string& name,
            const std::string& message) {
    const Place place{access.instruction, {}};
    if (found_again(kind, place, buffer)) return;
    add_finding({Severity::error, kind, place, name, message, {}});
}

// "0 bytes past the end of", for an access that is not wholly inside [begin, end).
std::string position(const Access& access, const char* begin, const char* end) {
    const char* last = access.address + access.size;
    if (access.address >= end) return std::to_string(access.address - end) + " bytes past the end of ";
    if (last > end) return "of which the last " + std::to_string(last - end) + " are past the end of ";
    return std::to_string(begin - access.address) + " bytes before the start of ";
}

__attribute__((noinline)) void report_outside(const Access& access, const Thread& thread, const char* begin,
                                              const char* end, const void* buffer, const std::string& name) {
    report(access, "out_of_bounds", buffer, name,
           verb(access) + " of " + std::to_string(access.size) + " bytes, " + position(access, begin, end) + name +
               by(thread));
}

[[noreturn]] void misaligned(const Access& access, const Thread& thread, const std::string& where) {
    const auto lines = lines_of({access.instruction});
    record(Kind::misaligned, lines.begin()->second.text(),
           "misaligned address: a " + verb(access) + " of " + std::to_string(access.size) + " bytes, " + where +
               ", which is not a multiple of " + std::to_string(access.size) + by(thread));
    leave();
}

inline bool is_misaligned(const Access& access) {
    const uint32_t size = access.size;
    return access.aligned && size <= kLargestValue && (size & (size - 1)) == 0 &&
           (reinterpret_cast<uintptr_t>(access.address) & (size - 1)) != 0;
}

// Atomics and flags carry what other threads have published. What an atomic is told by another one orders
// what comes after it, not the atomic itself: a plain store beside it is a race.
inline void exchange(const Access& access, const Thread& thread) {
    if (access.atomic) {
        learn(thread, access.address);
        publish(thread, access.address, false);
    } else if (access.is_volatile) {
        if (access.write) {
            publish(thread, access.address, true);
        } else {
            learn(thread, access.address);
        }
    }
}

// All words of the access that one shadow holds.
inline void check_words(const Context& context, const Shadow& shadow, char* begin, size_t size) {
    const auto low = reinterpret_cast<uintptr_t>(begin) & 3;
    if (low == 0 && size == 4) {
        check_word(context, shadow.cell(begin), 15);
        return;
    }
    char* word = begin - low;
    for (char* const end = begin + size; word < end; word += 4) {
        unsigned mask = 15;
        if (word < begin) mask &= 15u << low;
        if (word + 4 > end) mask &= 15u >> (word + 4 - end);
        check_word(context, shadow.cell(word), mask);
    }
}

// A value of which no byte was ever written is read. Only a store looks at nothing.
inline bool reads_nothing(const Access& access, const Shadow& shadow) {
    const bool reads = access.atomic ? !access.blind : !access.write;
    if (!reads || access.size > kLargestValue) return false;
    return __builtin_expect(nothing_written(shadow, access.address, access.size), 0);
}

__attribute__((noinline)) void report_unwritten(const Access& access, const Thread& thread, const Context& context,
                                                const std::string& name) {
    const std::string where = describe_place(context);
    if (context.shared) {
        report(access, "uninitialised_shared", context.buffer, name,
               verb(access) + " of " + where + ", which no thread of this block has written" + by(thread));
    } else if (access.atomic) {
        report(access, "uninitialised_atomic", context.buffer, name,
               "atomic update of " + where + ", which nobody has written: set it to zero first, with cudaMemsetAsync()"
               " on the same stream, say" + by(thread));
    } else {
        report(access, "uninitialised_read", context.buffer, name,
               "read of " + where + ", which nobody has written" + by(thread));
    }
}

// Allocations by instruction: nearly every instruction stays in one.
struct Recent {
    Allocation* of_instruction[256];
    size_t releases;
};
Recent recent;

inline Allocation* allocation_at(const Access& access) {
    if (__builtin_expect(recent.releases != heap.changes(), 0)) recent = {{}, heap.changes()};
    Allocation*& known = recent.of_instruction[reinterpret_cast<uintptr_t>(access.instruction) / 4 % 256];
    if (known == nullptr || static_cast<size_t>(access.address - known->begin) >= known->size) {
        known = heap.around(access.address);
    }
    return known;
}

void check_global(const Access& access, const Thread& thread) {
    Allocation* allocation = allocation_at(access);
    if (allocation == nullptr) return;  // it cannot be touched: the processor tells
    const char* begin = allocation->shown_begin;
    const char* end = allocation->shown_end();
    if (__builtin_expect(access.address < begin || access.address + access.size > end, 0)) {
        report_outside(access, thread, begin, end, allocation, describe_allocation(*allocation));
        return;
    }
    if (__builtin_expect(is_misaligned(access), 0)) {
        const std::string offset = "byte " + std::to_string(access.address - begin);
        misaligned(access, thread, offset + " of " + describe_allocation(*allocation));
    }
    const Context context = context_of(access, thread, false, allocation, allocation->shown_size);
    if (__builtin_expect(allocation->touched_in != now.launch, 0)) first_touch(*allocation);
    if (__builtin_expect(streams_are_unordered, 0)) check_transfers(context);
    if (access.is_volatile && !access.atomic) exchange(access, thread);
    char* address = access.address;
    for (size_t left = access.size; left != 0;) {
        const size_t here = std::min(left, kChunk - reinterpret_cast<uintptr_t>(address) % kChunk);
        const Shadow& shadow = global_shadow(address);
        if (left == access.size && reads_nothing(access, shadow)) {
            report_unwritten(access, thread, context, describe_allocation(*allocation));
        }
        check_words(context, shadow, address, here);
        if (access.write) mark_written(shadow, address, here);
        address += here;
        left -= here;
    }
    if (access.atomic) exchange(access, thread);
}

void check_shared(const Access& access, const Thread& thread, const SharedArray& array) {
    if (__builtin_expect(access.address < array.begin || access.address + access.size > array.end(), 0)) {
        report_outside(access, thread, array.begin, array.end(), &array,
                       array.name + " (" + std::to_string(array.size) + " bytes)");
        return;
    }
    if (__builtin_expect(is_misaligned(access), 0)) {
        misaligned(access, thread, "byte " + std::to_string(access.address - array.begin) + " of " + array.name);
    }
    const Context context = context_of(access, thread, true, &array, array.size);
    if (access.is_volatile && !access.atomic) exchange(access, thread);
    if (reads_nothing(access, array.shadow)) report_unwritten(access, thread, context, array.name);
    check_words(context, array.shadow, access.address, access.size);
    if (access.write) mark_written(array.shadow, access.address, access.size);
    if (access.atomic) exchange(access, thread);
}

void check_variable(const Access& access, const Thread& thread, const DeviceVariable& variable) {
    if (access.address + access.size > variable.begin + variable.size) {
        report_outside(access, thread, variable.begin, variable.begin + variable.size, &variable,
                       "`" + variable.name + "` (" + std::to_string(variable.size) + " bytes)");
        return;
    }
    const Context context = context_of(access, thread, false, &variable, variable.size);
    if (access.is_volatile && !access.atomic) exchange(access, thread);
    char* address = access.address;
    for (size_t left = access.size; left != 0;) {
        const size_t here = std::min(left, kChunk - reinterpret_cast<uintptr_t>(address) % kChunk);
        check_words(context, global_shadow(address), address, here);
        address += here;
        left -= here;
    }
    if (access.atomic) exchange(access, thread);
}

// Addresses outside of device memory that were found to be in order: parameters, constants, static variables.
// To look one up takes long, so two that share a slot must not drive each other out.
struct Harmless {
    const char* address[1024][2];

    bool contains(const char* at) const {
        const auto& pair = address[slot(at)];
        return pair[0] == at || pair[1] == at;
    }
    void add(const char* at) {
        auto& pair = address[slot(at)];
        pair[1] = pair[0];
        pair[0] = at;
    }
    // Variables often lie a power of two apart: all bits count.
    static size_t slot(const char* at) { return reinterpret_cast<uintptr_t>(at) * 0x9e3779b97f4a7c15u >> 54; }
};
Harmless harmless;

constexpr size_t kHostFrames = size_t{1} << 20;

void report_stray(const Access& access, const Thread& thread, const std::string& what) {
    const char* kind = access.write ? "stray_write" : "stray_read";
    report(access, kind, nullptr, what, verb(access) + " of " + what + by(thread));
}

// Something else than a variable of the student's would be destroyed: the kernel ends. It is most likely far beyond
// the end of a shared array, since these are static data, too.
[[noreturn]] void overruns(const Access& access, const Thread& thread) {
    const SharedArray* array = shared_below(access.address);
    std::string where = "no variable of the device";
    if (array != nullptr) {
        where = std::to_string(access.address - array->end()) + " bytes past the end of " + array->name + " (" +
                std::to_string(array->size) + " bytes)";
    }
    report(access, "out_of_bounds", array, where,
           verb(access) + " of " + std::to_string(access.size) + " bytes, " + where + by(thread));
    record(Kind::illegal_address, lines_of({access.instruction}).begin()->second.text(),
           "illegal memory access: the address is " + where + by(thread));
    leave();
}

// Memory that is not the device's at all.
void check_host(const Access& access, const Thread& thread) {
    const auto* body = static_cast<const char*>(block.body);
    const bool parameter = static_cast<size_t>(access.address - body) < block.body_size;
    const auto above = static_cast<size_t>(access.address - static_cast<const char*>(block.hub));
    if (!parameter && above < kHostFrames) {
        report_stray(access, thread, "a local variable of host code");
        return;
    }
    const Owner owner = parameter ? Owner{Owner::unknown, ""} : owner_of(access.address);
    if (owner.kind == Owner::foreign && access.write) overruns(access, thread);
    // `extern __shared__` at namespace scope is a reference, which lies where host variables do.
    const bool reference = owner.kind == Owner::host && !access.write && access.size == sizeof(char*) &&
                           *reinterpret_cast<char* const*>(access.address) == __emulator_dynamic_shared();
    if (owner.kind != Owner::host || hides_variables() || reference) {
        harmless.add(access.address);
        return;
    }
    report_stray(access, thread,
                 "`" + owner.name + "`, a variable of host code: the device has no such thing, and nvcc refuses it."
                 " Pass its value to the kernel, or declare it __device__");
}

// Neither in an allocation, nor shared memory, nor the thread's own stack.
__attribute__((noinline)) void check_elsewhere(const Access& access, const Thread& thread) {
    if (!access.atomic && !access.is_volatile && harmless.contains(access.address)) return;
    if (const DeviceVariable* variable = variable_at(access.address)) {
        check_variable(access, thread, *variable);
    } else if (stacks.contains(access.address)) {
        report_stray(access, thread, "a local variable of another thread: its address means something else there");
    } else {
        exchange(access, thread);  // it may be a variable that could not be registered
        check_host(access, thread);
    }
}

}  // namespace

void check_access(const Access& access, const Thread& thread) {
    if (static_cast<size_t>(access.address - thread.stack) < Stacks::kSize) return;
    if (__builtin_expect(heap.contains(access.address), 1)) {
        check_global(access, thread);
    } else if (const SharedArray* array = shared_at(access.address)) {
        check_shared(access, thread, *array);
    } else {
        check_elsewhere(access, thread);
    }
}

}  // namespace emulator::checker
