// cudaMalloc, cudaMemcpy and their kin.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "../include/emulator/control.h"
#include "../include/emulator/runtime_api.h"
#include "check_streams.h"
#include "checker.h"
#include "early.h"
#include "error.h"
#include "launch.h"
#include "memory.h"
#include "shared.h"
#include "watch.h"

namespace emulator {
namespace {

EMULATOR_EARLY std::map<const char*, size_t> pinned;  // ranges of host memory, by start

cudaError_t reject(cudaError_t error, const Site& site, const std::string& sentence) {
    if (sticky_error() != cudaSuccess) return sticky_error();
    record_error(Kind::api, site, sentence);
    return finish(error);
}

uint64_t pool_settings[cudaMemPoolAttrUsedMemHigh + 1];

bool checking() { return (watchers & kChecks) != 0; }

cudaError_t allocate(void** pointer, size_t size, const Site& site, bool managed) {
    if (pointer == nullptr) return finish(cudaErrorInvalidValue);
    if (sticky_error() != cudaSuccess) return sticky_error();
    *pointer = nullptr;
    if (size == 0) return finish(cudaSuccess);
    *pointer = heap.allocate(size, site, managed);
    if (checking() && *pointer != nullptr) checker::allocated(*heap.find(*pointer));
    return finish(*pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess, site);
}

// Why `size` bytes at `pointer` are not device memory, or "".
std::string outside_device(const void* pointer, size_t size) {
    if (const Allocation* allocation = heap.find(pointer)) {
        const auto* at = static_cast<const char*>(pointer);
        // Of an array between guards, the guards are nobody's; who copies them all starts before it.
        const bool of_array = at >= allocation->shown_begin && at < allocation->shown_end();
        const auto left = static_cast<size_t>((of_array ? allocation->shown_end() : allocation->end()) - at);
        if (size <= left) return "";
        return "only " + std::to_string(left) + " bytes are left there" +
               (allocation->name.empty() ? "" : " in `" + allocation->name + "`");
    }
    if (heap.contains(pointer)) return "it points " + describe_address(pointer);
    if (is_variable(pointer) || is_pinned(pointer)) return "";
    return pointer == nullptr ? "it is null" : "it is not a device pointer";
}

// Why the range cannot be host memory, or "".
std::string outside_host(const void* pointer) {
    if (pointer == nullptr) return "it is null";
    if (!heap.contains(pointer)) return "";
    const Allocation* allocation = heap.find(pointer);
    return allocation != nullptr && allocation->managed ? "" : "it is a device pointer";
}

cudaError_t check_copy(const void* to, const void* from, size_t size, cudaMemcpyKind kind, const Site& site) {
    std::string bad_to;
    std::string bad_from;
    const char* name = "";
    switch (kind) {
        case cudaMemcpyHostToHost: name = "HostToHost"; bad_to = outside_host(to); bad_from = outside_host(from); break;
        case cudaMemcpyHostToDevice: name = "HostToDevice"; bad_to = outside_device(to, size); bad_from = outside_host(from); break;
        case cudaMemcpyDeviceToHost: name = "DeviceToHost"; bad_to = outside_host(to); bad_from = outside_device(from, size); break;
        case cudaMemcpyDeviceToDevice: name = "DeviceToDevice"; bad_to = outside_device(to, size); bad_from = outside_device(from, size); break;
        case cudaMemcpyDefault:
            name = "Default";
            bad_to = heap.contains(to) ? outside_device(to, size) : outside_host(to);
            bad_from = heap.contains(from) ? outside_device(from, size) : outside_host(from);
            break;
        default: return reject(cudaErrorInvalidMemcpyDirection, site, "cudaMemcpy: the kind of copy is not valid");
    }
    if (bad_to.empty() && bad_from.empty()) return cudaSuccess;
    return reject(cudaErrorInvalidValue, site,
                  "cudaMemcpy of " + std::to_string(size) + " bytes, cudaMemcpy" + name + ": the " +
                      (bad_to.empty() ? "source is wrong: " + bad_from : "destination is wrong: " + bad_to));
}

}  // namespace

bool is_pinned(const void* pointer) {
    const auto* at = static_cast<const char*>(pointer);
    auto it = pinned.upper_bound(at);
    return it != pinned.begin() && at < std::prev(it)->first + std::prev(it)->second;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t __emulator_malloc(void** pointer, size_t size, int line, const char* file) {
    const Turn mine;
    return allocate(pointer, size, Site{file, line}, false);
}

cudaError_t __emulator_malloc_managed(void** pointer, size_t size, int line, const char* file) {
    const Turn mine;
    return allocate(pointer, size, Site{file, line}, true);
}

cudaError_t __emulator_malloc_host(void** pointer, size_t size) {
    const Turn mine;
    if (sticky_error() != cudaSuccess) return sticky_error();
    *pointer = std::aligned_alloc(256, (size + 511) / 256 * 256);
    if (*pointer == nullptr) return finish(cudaErrorMemoryAllocation);
    pinned[static_cast<const char*>(*pointer)] = size;
    return finish(cudaSuccess);
}

cudaError_t cudaFreeHost(void* pointer) {
    const Turn mine;
    if (pointer == nullptr) return finish(cudaSuccess);
    if (pinned.erase(static_cast<const char*>(pointer)) == 0) return finish(cudaErrorInvalidValue);
    std::free(pointer);
    return finish(cudaSuccess);
}

cudaError_t cudaHostRegister(void* pointer, size_t size, unsigned int) {
    const Turn mine;
    pinned[static_cast<const char*>(pointer)] = size;
    return finish(cudaSuccess);
}

cudaError_t cudaHostUnregister(void* pointer) {
    const Turn mine;
    const bool known = pinned.erase(static_cast<const char*>(pointer)) != 0;
    return finish(known ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t __emulator_free(void* pointer, int line, const char* file) {
    const Turn mine;
    if (sticky_error() != cudaSuccess) return sticky_error();
    if (pointer == nullptr) return finish(cudaSuccess);
    if (heap.release(pointer)) {
        if (checking()) checker::wait_for_device();
        return finish(cudaSuccess);
    }
    const bool freed = heap.contains(pointer) && heap.nearest(pointer) != nullptr && heap.nearest(pointer)->begin == pointer;
    return reject(cudaErrorInvalidValue, Site{file, line},
                  freed ? "cudaFree: this memory was freed before"
                        : "cudaFree: the pointer does not come from cudaMalloc");
}

cudaError_t __emulator_memcpy_async(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream,
                                    int line, const char* file) {
    const Turn mine;
    const Site site{file, line};
    if (sticky_error() != cudaSuccess) return sticky_error();
    if (size == 0) return finish(cudaSuccess);
    const cudaError_t error = check_copy(to, from, size, kind, site);
    if (error != cudaSuccess) return error;
    const DeviceAccess access;
    if (checking()) checker::copied(to, from, size, stream, site);
    std::memmove(to, from, size);
    if (watchers != 0) {
        const char* name = heap.contains(to) && heap.contains(from) ? "cudaMemcpy" : "cudaMemcpy host";
        watch_memory_call(name, heap.contains(to) ? to : nullptr, heap.contains(from) ? from : nullptr, size);
    }
    // Host memory that is not pinned is there when the call returns.
    if (checking() && !heap.contains(to) && !is_pinned(to)) checker::wait_for_stream(stream);
    return finish(cudaSuccess);
}

cudaError_t __emulator_memcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind, int line,
                              const char* file) {
    const cudaError_t error = __emulator_memcpy_async(to, from, size, kind, nullptr, line, file);
    if (checking()) checker::wait_for_stream(nullptr);
    return error;
}

cudaError_t __emulator_memcpy2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                                size_t height, cudaMemcpyKind kind, cudaStream_t stream, int line,
                                const char* file) {
    if (width > to_pitch || width > from_pitch) {
        return reject(cudaErrorInvalidPitchValue, Site{file, line}, "cudaMemcpy2D: the width is larger than a pitch");
    }
    const DeviceAccess access;
    for (size_t row = 0; row < height; ++row) {
        const cudaError_t error = __emulator_memcpy_async(static_cast<char*>(to) + row * to_pitch,
                                                          static_cast<const char*>(from) + row * from_pitch, width,
                                                          kind, stream, line, file);
        if (error != cudaSuccess) return error;
    }
    return finish(cudaSuccess);
}

cudaError_t __emulator_memset(void* to, int value, size_t size, cudaStream_t stream, int line, const char* file) {
    const Turn mine;
    if (sticky_error() != cudaSuccess) return sticky_error();
    if (size == 0) return finish(cudaSuccess);
    const std::string bad = outside_device(to, size);
    if (!bad.empty()) {
        return reject(cudaErrorInvalidValue, Site{file, line}, "cudaMemset of " + std::to_string(size) + " bytes: " + bad);
    }
    const DeviceAccess access;
    if (checking()) checker::filled(to, size, stream, Site{file, line});
    std::memset(to, value, size);
    if (watchers != 0) watch_memory_call("cudaMemset", to, nullptr, size);
    return finish(cudaSuccess);
}

cudaError_t __emulator_symbol(void* address, size_t size, size_t offset, size_t count, const void* from, void* to,
                              int line, const char* file) {
    const Turn mine;
    if (sticky_error() != cudaSuccess) return sticky_error();
    register_variable(address, size, "");
    if (offset > size || count > size - offset) {
        return reject(cudaErrorInvalidValue, Site{file, line},
                      "copy of " + std::to_string(count) + " bytes at offset " + std::to_string(offset) +
                          ": the device variable has " + std::to_string(size) + " bytes");
    }
    char* variable = static_cast<char*>(address) + offset;
    const DeviceAccess access;
    if (from != nullptr) std::memmove(variable, from, count);
    if (to != nullptr) std::memmove(to, variable, count);
    return finish(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total) {
    *total = heap.capacity();
    *free_bytes = heap.capacity() - heap.used();
    return finish(cudaSuccess);
}

static CUmemPoolHandle_st* const kPool = reinterpret_cast<CUmemPoolHandle_st*>(0x1);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    if (device != 0) return finish(cudaErrorInvalidDevice);
    *pool = kPool;
    return finish(cudaSuccess);
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) { return cudaDeviceGetDefaultMemPool(pool, device); }
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    return finish(device == 0 && pool == kPool ? cudaSuccess : cudaErrorInvalidValue);
}
static bool is_wide(cudaMemPoolAttr which) { return which >= cudaMemPoolAttrReleaseThreshold; }  // else an int
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
    if (pool != kPool || which < 1 || which > cudaMemPoolAttrUsedMemHigh) return finish(cudaErrorInvalidValue);
    std::memcpy(&pool_settings[which], value, is_wide(which) ? sizeof(uint64_t) : sizeof(int));
    return finish(cudaSuccess);
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
    if (pool != kPool || which < 1 || which > cudaMemPoolAttrUsedMemHigh) return finish(cudaErrorInvalidValue);
    const bool used = which == cudaMemPoolAttrUsedMemCurrent || which == cudaMemPoolAttrReservedMemCurrent;
    const uint64_t setting = used ? heap.used() : pool_settings[which];
    std::memcpy(value, &setting, is_wide(which) ? sizeof(uint64_t) : sizeof(int));
    return finish(cudaSuccess);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
    return finish(pool == kPool ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    const Turn mine;
    *attributes = {cudaMemoryTypeUnregistered, 0, nullptr, const_cast<void*>(pointer)};
    if (const Allocation* allocation = heap.find(pointer)) {
        attributes->type = allocation->managed ? cudaMemoryTypeManaged : cudaMemoryTypeDevice;
        attributes->devicePointer = const_cast<void*>(pointer);
        if (!allocation->managed) attributes->hostPointer = nullptr;
    } else if (is_pinned(pointer)) {
        attributes->type = cudaMemoryTypeHost;
        attributes->devicePointer = const_cast<void*>(pointer);
    }
    return finish(cudaSuccess);
}

void emu_name(void* pointer, const char* name) {
    if (Allocation* allocation = heap.find(pointer)) allocation->name = name;
}

void emu_name_array(void* begin, size_t size, const char* name) {
    if (Allocation* allocation = heap.find(begin)) {
        allocation->name = name;
        allocation->shown_begin = static_cast<char*>(begin);
        allocation->shown_size = size;
        allocation->is_array = true;
    }
}

void* emu_allocate_zeros(size_t bytes) { return heap.allocate(bytes, Site{}, false, DeviceHeap::Content::zeros); }

int emu_map(void* begin, size_t bytes, int file, const uint64_t* offsets, size_t piece, int shared) {
    return heap.map(begin, bytes, file, offsets, piece, shared != 0) ? 1 : 0;
}

void emu_set_device_memory(size_t bytes) { heap.set_capacity(bytes); }

size_t emu_device_memory_used(void) { return heap.used(); }
}
