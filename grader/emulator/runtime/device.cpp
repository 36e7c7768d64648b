// What the device says of itself, and what functions may use of it.
#include <cstring>
#include <map>

#include "../include/emulator/control.h"
#include "../include/emulator/runtime_api.h"
#include "check_streams.h"
#include "error.h"
#include "launch.h"
#include "memory.h"
#include "schedule.h"
#include "shared.h"

namespace emulator {
namespace {

constexpr int kMultiprocessors = 132;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kBlocksPerMultiprocessor = 32;
constexpr size_t kSharedPerMultiprocessor = size_t{228} << 10;
constexpr size_t kReservedShared = 1024;

std::map<const void*, int>& dynamic_shared_of() {
    static std::map<const void*, int> sizes;
    return sizes;
}
size_t limits[16] = {};

cudaDeviceProp properties() {
    cudaDeviceProp p;
    std::memset(&p, 0, sizeof p);
    std::strcpy(p.name, "CUDA emulator (CPU)");
    p.totalGlobalMem = heap.capacity();
    p.sharedMemPerBlock = kStaticSharedLimit;
    p.sharedMemPerBlockOptin = kSharedLimit;
    p.sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
    p.reservedSharedMemPerBlock = kReservedShared;
    p.regsPerBlock = p.regsPerMultiprocessor = 65536;
    p.warpSize = 32;
    p.memPitch = 0x7fffffff;
    p.maxThreadsPerBlock = 1024;
    p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.clockRate = 1980000;
    p.memoryClockRate = 2619000;
    p.memoryBusWidth = 6144;
    p.totalConstMem = 65536;
    p.major = 8;
    p.minor = 0;
    p.textureAlignment = 512;
    p.multiProcessorCount = kMultiprocessors;
    p.maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
    p.maxBlocksPerMultiProcessor = kBlocksPerMultiprocessor;
    p.l2CacheSize = 50 << 20;
    p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.managedMemory = 1;
    p.streamPrioritiesSupported = p.globalL1CacheSupported = p.localL1CacheSupported = 1;
    p.concurrentManagedAccess = p.memoryPoolsSupported = p.hostRegisterSupported = 1;
    p.asyncEngineCount = 3;
    return p;
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* result, int device) {
    if (device != 0) return finish(cudaErrorInvalidDevice);
    *result = properties();
    return finish(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (device != 0) return finish(cudaErrorInvalidDevice);
    const cudaDeviceProp p = properties();
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
        case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
        case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
        case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
        case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
        case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
        case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
        case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
        case cudaDevAttrTotalConstantMemory: *value = static_cast<int>(p.totalConstMem); break;
        case cudaDevAttrWarpSize: *value = p.warpSize; break;
        case cudaDevAttrMaxPitch: *value = static_cast<int>(p.memPitch); break;
        case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
        case cudaDevAttrClockRate: *value = p.clockRate; break;
        case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
        case cudaDevAttrCanMapHostMemory: *value = p.canMapHostMemory; break;
        case cudaDevAttrConcurrentKernels: *value = p.concurrentKernels; break;
        case cudaDevAttrMemoryClockRate: *value = p.memoryClockRate; break;
        case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
        case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
        case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
        case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
        case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
        case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
        case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
        case cudaDevAttrStreamPrioritiesSupported: *value = p.streamPrioritiesSupported; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(p.sharedMemPerMultiprocessor); break;
        case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
        case cudaDevAttrManagedMemory: *value = p.managedMemory; break;
        case cudaDevAttrConcurrentManagedAccess: *value = p.concurrentManagedAccess; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
        case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
        case cudaDevAttrReservedSharedMemoryPerBlock: *value = static_cast<int>(p.reservedSharedMemPerBlock); break;
        case cudaDevAttrMemoryPoolsSupported: *value = p.memoryPoolsSupported; break;
        default: *value = 0; break;
    }
    return finish(cudaSuccess);
}

cudaError_t __emulator_set_attribute(const void* function, cudaFuncAttribute attribute, int value, int line,
                                     const char* file) {
    if (function == nullptr) return finish(cudaErrorInvalidDeviceFunction, Site{file, line});
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return finish(cudaSuccess);
    if (value < 0 || static_cast<size_t>(value) > kSharedLimit) {
        return finish(cudaErrorInvalidValue, Site{file, line});
    }
    dynamic_shared_of()[function] = value;
    allow_dynamic_shared(static_cast<size_t>(value));
    return finish(cudaSuccess);
}

cudaError_t __emulator_get_attributes(cudaFuncAttributes* attributes, const void* function) {
    if (function == nullptr) return finish(cudaErrorInvalidDeviceFunction);
    std::memset(attributes, 0, sizeof *attributes);
    auto known = dynamic_shared_of().find(function);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;  // not known here
    attributes->ptxVersion = attributes->binaryVersion = 80;
    attributes->maxDynamicSharedSizeBytes =
        known != dynamic_shared_of().end() ? known->second : static_cast<int>(kStaticSharedLimit);
    attributes->preferredShmemCarveout = -1;
    return finish(cudaSuccess);
}

cudaError_t __emulator_max_active_blocks(int* blocks, const void* function, int block_size, size_t shared_bytes) {
    if (function == nullptr || block_size <= 0) return finish(cudaErrorInvalidValue);
    const int warps = (block_size + 31) / 32;
    int possible = block_size > 1024 ? 0 : kThreadsPerMultiprocessor / 32 / warps;
    if (possible > kBlocksPerMultiprocessor) possible = kBlocksPerMultiprocessor;
    const size_t by_shared = kSharedPerMultiprocessor / (shared_bytes + kReservedShared);
    if (shared_bytes > kSharedLimit) possible = 0;
    if (by_shared < static_cast<size_t>(possible)) possible = static_cast<int>(by_shared);
    *blocks = possible;
    return finish(cudaSuccess);
}

int __emulator_multiprocessors(void) { return kMultiprocessors; }

cudaError_t cudaDeviceSynchronize(void) {
    const Turn mine;
    checker::wait_for_device();
    return finish(cudaSuccess);
}
cudaError_t cudaDeviceReset(void) { return finish(cudaSuccess); }
cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return finish(cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return finish(cudaSuccess);
}
cudaError_t cudaSetDevice(int device) { return finish(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaSetDeviceFlags(unsigned int) { return finish(cudaSuccess); }
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    limits[limit & 15] = value;
    return finish(cudaSuccess);
}
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    *value = limits[limit & 15];
    return finish(cudaSuccess);
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return finish(cudaSuccess); }
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return finish(cudaSuccess); }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
    *can = 0;
    return finish(cudaSuccess);
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return finish(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return finish(cudaSuccess);
}
cudaError_t cudaProfilerStart(void) { return finish(cudaSuccess); }
cudaError_t cudaProfilerStop(void) { return finish(cudaSuccess); }

void emu_set_schedule(uint64_t seed) { schedule.seed(seed); }
void emu_set_workers(int) {}
}
