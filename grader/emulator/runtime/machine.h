// The device whose times are modelled: how many multiprocessors, how large their memories.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace emulator {

// The defaults are those of an NVIDIA H200.
struct Machine {
    unsigned sms = 132;
    size_t l1_bytes = size_t{256} << 10;  // one multiprocessor's, from which shared memory is taken
    size_t l2_bytes = size_t{50} << 20;
    unsigned threads_per_sm = 2048;
    unsigned max_blocks_per_sm = 32;
    size_t shared_per_sm = size_t{228} << 10;
    size_t reserved_shared = 1024;  // of each block, for the system
    unsigned registers_per_sm = 65536;
    uint64_t access_limit = 20'000'000;  // of a sampled launch
    std::map<std::string, unsigned> registers;  // a thread of this kernel uses, where a compiler said so

    // "sms=132 l2_bytes=52428800 registers:kernel=40"; keys are the names above.
    void set(const std::string& settings);
    // Blocks of `threads` threads and `shared` bytes that are resident on one multiprocessor together.
    unsigned blocks_per_sm(unsigned threads, size_t shared, const std::string& kernel) const;
    // What is left of a multiprocessor's L1 cache for data when it holds these blocks.
    size_t l1_left(unsigned blocks, size_t shared) const;
};

extern Machine machine;

}  // namespace emulator
