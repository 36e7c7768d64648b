// Who touched a word of memory, and when: what the checkers remember of every word.
#pragma once

#include <cstdint>

namespace emulator::checker {

// One access, packed. Time is counted in intervals: a new one begins with every block that starts and at
// every barrier of a block, so a number stands for a launch, a block and what lies between two of its barriers.
// Within an interval, a thread's epoch grows with each synchronisation of its warp and each fence of its own.
class Stamp {
public:
    Stamp() = default;
    Stamp(uint32_t interval, unsigned thread, unsigned epoch)
        : bits_(uint64_t{interval} << 32 | uint64_t{thread} << 22 | uint64_t{epoch} << 6) {}
    // The second reader of an interval is kept without it.
    static Stamp joined(uint32_t interval, uint32_t rest) {
        Stamp stamp;
        stamp.bits_ = uint64_t{interval} << 32 | rest;
        return stamp;
    }

    Stamp of_bytes(unsigned mask) const { return with(mask); }
    Stamp as_atomic() const { return with(kAtomic); }
    Stamp as_volatile() const { return with(kVolatile); }

    uint32_t interval() const { return static_cast<uint32_t>(bits_ >> 32); }
    uint32_t rest() const { return static_cast<uint32_t>(bits_); }
    unsigned thread() const { return static_cast<unsigned>(bits_ >> 22) & 1023; }
    unsigned epoch() const { return static_cast<unsigned>(bits_ >> 6) & 0xffff; }
    bool touches(unsigned mask) const { return (bits_ & mask) != 0; }  // of the four bytes of the word
    bool is_atomic() const { return (bits_ & kAtomic) != 0; }
    bool is_volatile() const { return (bits_ & kVolatile) != 0; }

private:
    static constexpr uint64_t kAtomic = 16;
    static constexpr uint64_t kVolatile = 32;

    Stamp with(uint64_t flags) const {
        Stamp stamp = *this;
        stamp.bits_ |= flags;
        return stamp;
    }

    uint64_t bits_ = 0;  // 0: nobody
};

// What is remembered of four bytes: the last write, and since then a read and one by another thread.
struct Cell {
    Stamp write;
    Stamp read;
    uint32_t second;  // Stamp::rest() of another thread that read in the interval of `read`
    uint16_t write_site;
    uint16_t read_site;
};
static_assert(sizeof(Cell) == 24);

}  // namespace emulator::checker
