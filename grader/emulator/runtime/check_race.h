// Races: two accesses of one word by different threads, of which at least one writes, and nothing that puts
// one before the other.
#pragma once

#include <cstdint>

#include "check_shadow.h"
#include "watch.h"

namespace emulator::checker {

enum class Touch { read, write, atomic };

// What is known of an access before its words are looked at.
struct Context {
    const Access* access;
    const Thread* thread;
    Touch touch;
    Stamp stamp;
    uint16_t site;
    bool shared;      // memory of the block
    uint32_t floor;   // accesses of earlier intervals are not of this launch, or block
    const void* buffer;
    bool scalar;  // the buffer is no more than one value
};

Context context_of(const Access& access, const Thread& thread, bool shared, const void* buffer, size_t size);

// Looks for races on one word, of which `mask` names the bytes, and remembers the access.
void check_word(const Context& context, Cell& cell, unsigned mask);

// A write was found to race with another one: now that it is done, does it differ?
extern bool write_is_pending;
void settle_write();

// Plain reads of what others update by atomics: a look before an atomic of the thread's own is meant. The
// others are told at the next barrier.
void settle_looks();

// A number for the instruction, and back; other threads' instructions are kept by number.
uint16_t site_of(const void* instruction);
const void* instruction_of(uint16_t site);

// The thread of a stamp of this launch.
std::string thread_of(Stamp stamp);
// "global memory `out`+16" for the access.
std::string describe_place(const Context& context);

}  // namespace emulator::checker
