#include "stacks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "early.h"

namespace emulator {

EMULATOR_EARLY Stacks stacks;

void Stacks::allocate(size_t count) {
    if (memory_ != nullptr) munmap(memory_, count_ * kSize);
    count_ = 0;
    void* memory = mmap(nullptr, count * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        memory_ = nullptr;
        throw std::bad_alloc();
    }
    memory_ = static_cast<char*>(memory);
    count_ = count;
    guard_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (size_t i = 0; i < count; ++i) mprotect(memory_ + i * kSize, guard_, PROT_NONE);
}

void Stacks::reserve(size_t count) {
    if (count > count_) {
        allocate(count < 256 ? 256 : count);
        free_.clear();
    }
    if (free_.size() == count_) return;  // the usual case: every thread has given its stack back
    free_.clear();
    for (size_t i = count_; i > 0; --i) free_.push_back(memory_ + (i - 1) * kSize);
}

bool Stacks::contains(const void* address) const {
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - memory_);
    return memory_ != nullptr && offset < count_ * kSize;
}

bool Stacks::overflowed(const void* address) const {
    return contains(address) && static_cast<size_t>(static_cast<const char*>(address) - memory_) % kSize < guard_;
}

}  // namespace emulator
