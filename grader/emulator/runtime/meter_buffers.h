// What device code touches: allocations, variables of the device, shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace emulator::meter {

enum class Space : uint8_t { none, global, shared };

struct Buffer {
    char* begin;
    size_t size;
    Space space;
    std::string name;

    // Of global memory: the 32-byte sectors that this launch has touched, a bit each.
    std::vector<bool> read;
    std::vector<bool> written;
    // The same as numbers, with each sector as often as the blocks that its block stands for.
    uint64_t read_sectors = 0;       // read before they were written
    uint64_t written_sectors = 0;
    uint64_t dirty_sectors = 0;      // still to be written to memory when the launch has ended

    bool contains(const char* address) const { return static_cast<size_t>(address - begin) < size; }
    // All sectors that it has.
    uint64_t sectors() const { return (size + 31) / 32; }
};

// The buffers of a launch.
class Buffers {
public:
    // Null if the address belongs to none: stacks, built-in variables, memory of the host.
    Buffer* find(char* address) {
        if (last_ != nullptr && last_->contains(address)) return last_;
        return search(address);
    }
    void clear();
    std::deque<Buffer>& all() { return buffers_; }

private:
    Buffer* search(char* address);

    std::deque<Buffer> buffers_;  // pointers to them stay valid
    Buffer* last_ = nullptr;
};

}  // namespace emulator::meter
