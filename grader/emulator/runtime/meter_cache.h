// A cache of 128-byte lines, each of four sectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator::meter {

struct CacheLine {
    uint64_t number;
    uint32_t next;      // in its bucket
    uint32_t older;     // in the order of use
    uint32_t newer;
    uint32_t weight;    // of the block that wrote it
    uint8_t sectors;    // that are there
    uint8_t dirty;      // that have to be written to memory
};

// Which line makes room for another: the one that was not used for the longest time; or every other time
// any one, which keeps some of what goes round in a circle that is a little too large.
enum class Replacement { oldest, mixed };

class Cache {
public:
    Cache(size_t lines, Replacement replacement);

    // The line, now the one used last; null if it is not there.
    CacheLine* find(uint64_t number);
    // Makes room for a line that is not there. What leaves is copied to `evicted`; true if something does.
    CacheLine* insert(uint64_t number, CacheLine* evicted, bool* evicts);

    const std::vector<CacheLine>& lines() const { return lines_; }

private:
    static constexpr uint32_t kNone = ~uint32_t{0};

    uint32_t& bucket(uint64_t number) { return buckets_[(number * 0x9e3779b97f4a7c15u) >> shift_]; }
    void unlink(uint32_t index);
    void use(uint32_t index);
    void forget(uint32_t index);
    uint32_t victim();

    size_t capacity_;
    Replacement replacement_;
    uint64_t random_ = 0x2545f4914f6cdd1du;
    int shift_;
    std::vector<CacheLine> lines_;
    std::vector<uint32_t> buckets_;
    uint32_t oldest_ = kNone;
    uint32_t newest_ = kNone;
};

}  // namespace emulator::meter
