// Device memory: a reserved range of addresses of which only what is allocated can be touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "fault.h"

namespace emulator {

struct Allocation {
    char* begin;
    size_t size;
    size_t pages;  // bytes that were made accessible
    std::string name;
    Site site;
    bool managed;
    bool freed;
    char* shown_begin;  // what messages speak of: the array inside, where a program put guards around it
    size_t shown_size;
    bool is_array = false;    // named by emu_name_array
    uint32_t touched_in = 0;  // the launch that touched it last, as the checkers count
    unsigned call = 0;        // in which it was made (emu_inputs_ready_on), 0 outside of any
    bool mapped = false;      // pieces of a file lie there (emu_map)

    char* end() const { return begin + size; }
    char* shown_end() const { return shown_begin + shown_size; }
};

class DeviceHeap {
public:
    // A pointer to `size` bytes of 0xff, aligned to 256; null if the device has not that much left. Zeros
    // take memory of the host only where they are written.
    enum class Content { poison, zeros };
    void* allocate(size_t size, const Site& site, bool managed, Content content = Content::poison);
    // Lay pieces of a file there; see emu_map.
    bool map(void* pointer, size_t size, int file, const uint64_t* offsets, size_t piece, bool shared);
    // False if `pointer` is not the start of a live allocation.
    bool release(void* pointer);

    // The live or freed allocation that holds the address, or ends nearest before it.
    const Allocation* nearest(const void* address) const;
    // The live allocation that holds the address.
    Allocation* find(const void* address);
    // The live allocation on whose pages the address lies: in it, or beside it.
    Allocation* around(const void* address);
    bool contains(const void* address) const {  // the reserved range
        return static_cast<size_t>(static_cast<const char*>(address) - base_) < reserved_;
    }
    const std::map<const char*, Allocation>& allocations() const { return allocations_; }

    // Grows whenever an allocation is made or goes away.
    size_t changes() const { return changes_; }

    // Calls of a program around the emulator, to tell what was allocated in which.
    void begin_call() { call_ = ++calls_; }
    unsigned end_call() { return std::exchange(call_, 0); }

    // Host code cannot touch device memory, except managed memory: it is closed outside of kernels
    // and of the functions that copy. Calls nest.
    void open();
    void close();

    void set_capacity(size_t bytes) { capacity_ = bytes; }
    size_t capacity() const { return capacity_; }
    size_t used() const { return used_; }

private:
    bool reserve();
    char* place(size_t bytes);
    void protect_all(int protection);

    char* base_ = nullptr;
    size_t reserved_ = 0;
    size_t next_ = 0;  // offset of the first address never used
    size_t capacity_ = size_t{16} << 30;
    size_t used_ = 0;
    int opened_ = 0;
    size_t changes_ = 0;
    unsigned calls_ = 0;
    unsigned call_ = 0;
    std::map<const char*, Allocation> allocations_;  // by begin
};

extern DeviceHeap heap;

// Device memory can be touched as long as one of these lives.
struct DeviceAccess {
    DeviceAccess() { heap.open(); }
    DeviceAccess(const DeviceAccess&) = delete;
    DeviceAccess& operator=(const DeviceAccess&) = delete;
    ~DeviceAccess() { heap.close(); }
};

// "4 bytes past the end of `inp` (1024 bytes)" and the like, for an address that cannot be touched.
std::string describe_address(const void* address);

// "inside `out` (1024 bytes)": the allocation with its size, or where it was made.
std::string describe_allocation(const Allocation& allocation);

// Whether device code may be given this pointer: device memory, a device variable, pinned host memory.
bool is_device_pointer(const void* pointer);

// Host memory that the device can use: cudaMallocHost, cudaHostRegister.
bool is_pinned(const void* pointer);

}  // namespace emulator
