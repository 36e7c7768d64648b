// Stacks for fibers, each with a guard page below it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

class Stacks {
public:
    static constexpr size_t kSize = size_t{128} << 10;

    // Makes sure that `count` stacks exist; all of them are free afterwards.
    void reserve(size_t count);
    char* take() {
        char* stack = free_.back();
        free_.pop_back();
        return stack;
    }
    void give_back(char* stack) { free_.push_back(stack); }
    // Where a fiber starts. Tops are staggered: equal offsets in equal-sized stacks would all fall
    // into the same few cache sets.
    char* top(char* stack, ptrdiff_t number) const { return stack + kSize - 64 - number % 61 * 192; }

    bool contains(const void* address) const;
    // Whether the address lies in the guard page of one of the stacks, or just above it.
    bool overflowed(const void* address) const;

private:
    void allocate(size_t count);

    char* memory_ = nullptr;
    size_t count_ = 0;
    size_t guard_ = 0;
    std::vector<char*> free_;
};

extern Stacks stacks;

}  // namespace emulator
