// Which blocks of a launch are run. Counting all blocks of a large grid takes long; some of them, each
// standing for others, tell the same. Blocks that are not chosen are not run at all.
#pragma once

#include <cstdint>
#include <vector>

namespace emulator {

class Sampling {
public:
    // About so many blocks of a launch are run, or so many accesses to memory; blocks = 0: all. Of the
    // launches that follow on many others only a few blocks are: they are most likely alike.
    void set(unsigned blocks, uint64_t accesses) {
        target_blocks_ = blocks;
        target_accesses_ = accesses;
        launches_ = 0;
    }
    bool on() const { return target_blocks_ != 0; }

    // A launch of so many blocks begins.
    void start(uint64_t blocks);
    // What the first block has shown: accesses that it made, blocks resident on a multiprocessor together.
    void learn(uint64_t accesses, unsigned resident);

    // The block to run in this position; false if there is none left.
    bool next(uint64_t position, uint64_t* number) const;
    // Every block of the grid is run.
    bool whole() const { return chosen_.size() == grid_; }
    // How many blocks the one in this position stands for, itself included. The sum is the grid.
    uint64_t weight(uint64_t position) const;

    // Multiprocessors that the grid occupies, and how many of them the chosen blocks live on.
    uint64_t occupied() const;
    uint64_t sampled() const;

private:
    void choose(uint64_t blocks, uint64_t resident);
    void weigh(uint64_t from);

    unsigned target_blocks_ = 0;
    uint64_t target_accesses_ = 0;
    uint64_t launches_ = 0;  // since set()
    uint64_t grid_ = 0;
    std::vector<uint64_t> chosen_;   // ascending; the last block of the grid is always there
    std::vector<uint64_t> weights_;
};

extern Sampling sampling;

}  // namespace emulator
