// How many atomic operations of a launch meet at one address, where they take turns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace emulator::meter {

class HotAddresses {
public:
    void add(const char* address, size_t block, uint64_t weight) {
        Count& count = counts_[address];
        if (count.all == 0) count.block = block;
        count.together = count.together || count.block != block;
        count.all += weight;
        ++count.here;
    }
    // An address that only one of the blocks that were run uses belongs to that block alone: the blocks
    // for which it stands have others.
    uint64_t busiest() const {
        uint64_t most = 0;
        for (const auto& [address, count] : counts_) most = std::max(most, count.together ? count.all : count.here);
        return most;
    }
    void clear() { counts_.clear(); }

private:
    struct Count {
        uint64_t all = 0;   // with weights
        uint64_t here = 0;  // without
        size_t block = 0;   // the first that used it
        bool together = false;
    };
    std::unordered_map<const char*, Count> counts_;
};

}  // namespace emulator::meter
