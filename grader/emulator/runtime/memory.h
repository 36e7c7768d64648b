// Device memory: a reserved range of addresses of which only what is allocated can be touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

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

    char* end() const { return begin + size; }
    char* shown_end() const { return shown_begin + shown_size; }
};

class DeviceHeap {
public:
    // A pointer to `size` bytes of 0xff, aligned to 256; null if the device has not that much left. Zeros
    // take memory of the host only where they are written.
    enum class Content { poison, zeros };
    void* allocate(size_t size, const Site& site, bool managed, Content content = Content::poison);
    // False if `pointer` is not the start of a live allocation.
    bool release(void* pointer);

    // The live or freed allocation that holds the address, or ends nearest before it.
    const Allocation* nearest(const void* address) const;
    // The live allocation that holds the address.
    Allocation* find(const void* address);
    bool contains(const void* address) const;  // the reserved range

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

// Whether device code may be given this pointer: device memory, a device variable, pinned host memory.
bool is_device_pointer(const void* pointer);

// Host memory that the device can use: cudaMallocHost, cudaHostRegister.
bool is_pinned(const void* pointer);

}  // namespace emulator
