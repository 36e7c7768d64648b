// Runtime API calls that need the type of their arguments, or the place where they were called.
#pragma once

#include "launch.h"
#include "runtime_api.h"

// ------------------------------------------------------------------------------------- memory
template <class _Type>
static inline cudaError_t cudaMalloc(_Type** __pointer, size_t __size, __EMULATOR_SITE__) {
    return __emulator_malloc(reinterpret_cast<void**>(__pointer), __size, __line, __file);
}
template <class _Type>
static inline cudaError_t cudaMallocAsync(_Type** __pointer, size_t __size, cudaStream_t, __EMULATOR_SITE__) {
    return __emulator_malloc(reinterpret_cast<void**>(__pointer), __size, __line, __file);
}
template <class _Type>
static inline cudaError_t cudaMallocManaged(_Type** __pointer, size_t __size, unsigned int = cudaMemAttachGlobal,
                                            __EMULATOR_SITE__) {
    return __emulator_malloc_managed(reinterpret_cast<void**>(__pointer), __size, __line, __file);
}
template <class _Type>
static inline cudaError_t cudaMallocHost(_Type** __pointer, size_t __size, unsigned int = 0) {
    return __emulator_malloc_host(reinterpret_cast<void**>(__pointer), __size);
}
template <class _Type>
static inline cudaError_t cudaHostAlloc(_Type** __pointer, size_t __size, unsigned int) {
    return __emulator_malloc_host(reinterpret_cast<void**>(__pointer), __size);
}
template <class _Type>
static inline cudaError_t cudaHostGetDevicePointer(_Type** __device, void* __host, unsigned int) {
    *__device = static_cast<_Type*>(__host);
    return cudaSuccess;
}
template <class _Type>
static inline cudaError_t cudaMallocPitch(_Type** __pointer, size_t* __pitch, size_t __width, size_t __height,
                                          __EMULATOR_SITE__) {
    *__pitch = (__width + 511) / 512 * 512;
    return __emulator_malloc(reinterpret_cast<void**>(__pointer), *__pitch * __height, __line, __file);
}
static inline cudaError_t cudaFree(void* __pointer, __EMULATOR_SITE__) {
    return __emulator_free(__pointer, __line, __file);
}
static inline cudaError_t cudaFreeAsync(void* __pointer, cudaStream_t, __EMULATOR_SITE__) {
    return __emulator_free(__pointer, __line, __file);
}
static inline cudaError_t cudaMemcpy(void* __to, const void* __from, size_t __size, enum cudaMemcpyKind __kind,
                                     __EMULATOR_SITE__) {
    return __emulator_memcpy(__to, __from, __size, __kind, __line, __file);
}
static inline cudaError_t cudaMemcpyAsync(void* __to, const void* __from, size_t __size, enum cudaMemcpyKind __kind,
                                          cudaStream_t __stream = nullptr, __EMULATOR_SITE__) {
    return __emulator_memcpy_async(__to, __from, __size, __kind, __stream, __line, __file);
}
static inline cudaError_t cudaMemcpy2D(void* __to, size_t __to_pitch, const void* __from, size_t __from_pitch,
                                       size_t __width, size_t __height, enum cudaMemcpyKind __kind,
                                       __EMULATOR_SITE__) {
    return __emulator_memcpy2d(__to, __to_pitch, __from, __from_pitch, __width, __height, __kind, nullptr, __line,
                               __file);
}
static inline cudaError_t cudaMemcpy2DAsync(void* __to, size_t __to_pitch, const void* __from, size_t __from_pitch,
                                            size_t __width, size_t __height, enum cudaMemcpyKind __kind,
                                            cudaStream_t __stream = nullptr, __EMULATOR_SITE__) {
    return __emulator_memcpy2d(__to, __to_pitch, __from, __from_pitch, __width, __height, __kind, __stream, __line,
                               __file);
}
static inline cudaError_t cudaMemset(void* __to, int __value, size_t __size, __EMULATOR_SITE__) {
    return __emulator_memset(__to, __value, __size, nullptr, __line, __file);
}
static inline cudaError_t cudaMemsetAsync(void* __to, int __value, size_t __size, cudaStream_t __stream = nullptr,
                                          __EMULATOR_SITE__) {
    return __emulator_memset(__to, __value, __size, __stream, __line, __file);
}
static inline cudaError_t cudaMemset2DAsync(void* __to, size_t __pitch, int __value, size_t __width, size_t __height,
                                            cudaStream_t __stream = nullptr, __EMULATOR_SITE__) {
    for (size_t __row = 0; __row < __height; ++__row) {
        cudaError_t __error =
            __emulator_memset(static_cast<char*>(__to) + __row * __pitch, __value, __width, __stream, __line, __file);
        if (__error != cudaSuccess) return __error;
    }
    return cudaSuccess;
}
static inline cudaError_t cudaMemset2D(void* __to, size_t __pitch, int __value, size_t __width, size_t __height,
                                       __EMULATOR_SITE__) {
    return cudaMemset2DAsync(__to, __pitch, __value, __width, __height, nullptr, __line, __file);
}
// Without the place of the call: what &cudaFree and the like mean.
static inline cudaError_t __emulator_cudaFree(void* __pointer) { return __emulator_free(__pointer, 0, nullptr); }
static inline cudaError_t __emulator_cudaFreeAsync(void* __pointer, cudaStream_t) {
    return __emulator_free(__pointer, 0, nullptr);
}
static inline cudaError_t __emulator_cudaMemcpy(void* __to, const void* __from, size_t __size,
                                                enum cudaMemcpyKind __kind) {
    return __emulator_memcpy(__to, __from, __size, __kind, 0, nullptr);
}
static inline cudaError_t __emulator_cudaMemcpyAsync(void* __to, const void* __from, size_t __size,
                                                     enum cudaMemcpyKind __kind, cudaStream_t __stream = nullptr) {
    return __emulator_memcpy_async(__to, __from, __size, __kind, __stream, 0, nullptr);
}
static inline cudaError_t __emulator_cudaMemset(void* __to, int __value, size_t __size) {
    return __emulator_memset(__to, __value, __size, nullptr, 0, nullptr);
}
static inline cudaError_t __emulator_cudaMemsetAsync(void* __to, int __value, size_t __size,
                                                     cudaStream_t __stream = nullptr) {
    return __emulator_memset(__to, __value, __size, __stream, 0, nullptr);
}

// Pools hand out memory like cudaMalloc.
template <class _Type>
static inline cudaError_t cudaMallocFromPoolAsync(_Type** __pointer, size_t __size, cudaMemPool_t, cudaStream_t,
                                                  __EMULATOR_SITE__) {
    return __emulator_malloc(reinterpret_cast<void**>(__pointer), __size, __line, __file);
}
template <class _Type>
static inline cudaError_t cudaMallocAsync(_Type** __pointer, size_t __size, cudaMemPool_t, cudaStream_t,
                                          __EMULATOR_SITE__) {
    return __emulator_malloc(reinterpret_cast<void**>(__pointer), __size, __line, __file);
}
template <class... _Rest>
static inline cudaError_t cudaMemPrefetchAsync(const void*, size_t, _Rest...) {
    return cudaSuccess;
}
template <class... _Rest>
static inline cudaError_t cudaMemAdvise(const void*, size_t, enum cudaMemoryAdvise, _Rest...) {
    return cudaSuccess;
}

// ------------------------------------------------------------------------------------ symbols
namespace __emulator {
template <class _Type>
void* __address_of(const _Type& __symbol) {
    return const_cast<char*>(reinterpret_cast<const volatile char*>(&__symbol));
}
}  // namespace __emulator
template <class _Type>
static inline cudaError_t cudaMemcpyToSymbol(const _Type& __symbol, const void* __from, size_t __size,
                                             size_t __offset = 0, enum cudaMemcpyKind = cudaMemcpyHostToDevice,
                                             __EMULATOR_SITE__) {
    return __emulator_symbol(::__emulator::__address_of(__symbol), sizeof(__symbol), __offset, __size, __from, nullptr,
                             __line, __file);
}
template <class _Type>
static inline cudaError_t cudaMemcpyToSymbolAsync(const _Type& __symbol, const void* __from, size_t __size,
                                                  size_t __offset = 0,
                                                  enum cudaMemcpyKind __kind = cudaMemcpyHostToDevice,
                                                  cudaStream_t = nullptr, __EMULATOR_SITE__) {
    return cudaMemcpyToSymbol(__symbol, __from, __size, __offset, __kind, __line, __file);
}
template <class _Type>
static inline cudaError_t cudaMemcpyFromSymbol(void* __to, const _Type& __symbol, size_t __size,
                                               size_t __offset = 0, enum cudaMemcpyKind = cudaMemcpyDeviceToHost,
                                               __EMULATOR_SITE__) {
    return __emulator_symbol(::__emulator::__address_of(__symbol), sizeof(__symbol), __offset, __size, nullptr, __to,
                             __line, __file);
}
template <class _Type>
static inline cudaError_t cudaMemcpyFromSymbolAsync(void* __to, const _Type& __symbol, size_t __size,
                                                    size_t __offset = 0,
                                                    enum cudaMemcpyKind __kind = cudaMemcpyDeviceToHost,
                                                    cudaStream_t = nullptr, __EMULATOR_SITE__) {
    return cudaMemcpyFromSymbol(__to, __symbol, __size, __offset, __kind, __line, __file);
}
template <class _Pointer, class _Type>
static inline cudaError_t cudaGetSymbolAddress(_Pointer** __pointer, const _Type& __symbol, __EMULATOR_SITE__) {
    void* __address = ::__emulator::__address_of(__symbol);
    *__pointer = static_cast<_Pointer*>(__address);
    return __emulator_symbol(__address, sizeof(__symbol), 0, 0, nullptr, nullptr, __line, __file);
}
template <class _Type>
static inline cudaError_t cudaGetSymbolSize(size_t* __size, const _Type& __symbol) {
    *__size = sizeof(__symbol);
    return cudaSuccess;
}

// ------------------------------------------------------------------------------------- events
static inline cudaError_t cudaEventCreate(cudaEvent_t* __event, unsigned int __flags = 0) {
    return cudaEventCreateWithFlags(__event, __flags);
}
static inline cudaError_t cudaEventRecordWithFlags(cudaEvent_t __event, cudaStream_t __stream = nullptr,
                                                   unsigned int = 0) {
    return cudaEventRecord(__event, __stream);
}

// ---------------------------------------------------------------------------------- functions
template <class _Function>
static inline cudaError_t cudaFuncSetAttribute(_Function __function, enum cudaFuncAttribute __which, int __value,
                                               __EMULATOR_SITE__) {
    return __emulator_set_attribute(reinterpret_cast<const void*>(__function), __which, __value, __line, __file);
}
template <class _Function>
static inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* __attributes, _Function __function) {
    return __emulator_get_attributes(__attributes, reinterpret_cast<const void*>(__function));
}
template <class _Function>
static inline cudaError_t cudaFuncSetCacheConfig(_Function, enum cudaFuncCache) {
    return cudaSuccess;
}
template <class _Function>
static inline cudaError_t cudaFuncSetSharedMemConfig(_Function, enum cudaSharedMemConfig) {
    return cudaSuccess;
}
template <class _Function>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* __blocks, _Function __function,
                                                                        int __block_size, size_t __shared_bytes) {
    return __emulator_max_active_blocks(__blocks, reinterpret_cast<const void*>(__function), __block_size,
                                        __shared_bytes);
}
template <class _Function>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* __blocks,
                                                                                 _Function __function,
                                                                                 int __block_size,
                                                                                 size_t __shared_bytes,
                                                                                 unsigned int) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(__blocks, __function, __block_size, __shared_bytes);
}
template <class _Function, class _Shared>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* __grid, int* __block,
                                                                         _Function __function, _Shared __shared_of,
                                                                         int __limit = 0) {
    int __best = 0;
    for (int __size = __limit > 0 && __limit < 1024 ? __limit : 1024; __size >= 32; __size -= 32) {
        int __blocks = 0;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&__blocks, __function, __size, __shared_of(__size));
        if (__blocks * __size > __best) {
            __best = __blocks * __size;
            *__block = __size;
            *__grid = __blocks * __emulator_multiprocessors();
        }
    }
    return cudaSuccess;
}
template <class _Function>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int* __grid, int* __block, _Function __function,
                                                             size_t __shared_bytes = 0, int __limit = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMem(
        __grid, __block, __function, [=](int) { return __shared_bytes; }, __limit);
}

namespace __emulator {
template <class... _Parameters, size_t... _Index>
cudaError_t __launch(void (*__function)(_Parameters...), dim3 __grid, dim3 __block, void** __arguments,
                     size_t __shared_bytes, cudaStream_t __stream, std::index_sequence<_Index...>, int __line,
                     const char* __file) {
    {
        Launch __launch_ = configure(__grid, __block, __shared_bytes, __stream, __line, __file);
        __function(*static_cast<std::remove_reference_t<_Parameters>*>(__arguments[_Index])...);
    }
    (void)__arguments;
    return cudaPeekAtLastError();
}
}  // namespace __emulator
template <class... _Parameters>
static inline cudaError_t cudaLaunchKernel(void (*__function)(_Parameters...), dim3 __grid, dim3 __block,
                                           void** __arguments, size_t __shared_bytes = 0,
                                           cudaStream_t __stream = nullptr, __EMULATOR_SITE__) {
    return ::__emulator::__launch(__function, __grid, __block, __arguments, __shared_bytes, __stream,
                                  std::index_sequence_for<_Parameters...>(), __line, __file);
}
template <class... _Parameters>
static inline cudaError_t cudaLaunchCooperativeKernel(void (*__function)(_Parameters...), dim3 __grid,
                                                      dim3 __block, void** __arguments, size_t __shared_bytes = 0,
                                                      cudaStream_t __stream = nullptr, __EMULATOR_SITE__) {
    return ::__emulator::__launch(__function, __grid, __block, __arguments, __shared_bytes, __stream,
                                  std::index_sequence_for<_Parameters...>(), __line, __file);
}
#define __EMULATOR_NAME_THE_KERNEL__ \
    __attribute__((unavailable("the kernel behind a void* cannot be launched here: name the kernel itself in this call")))
cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t = 0, cudaStream_t = nullptr)
    __EMULATOR_NAME_THE_KERNEL__;
cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, size_t = 0, cudaStream_t = nullptr)
    __EMULATOR_NAME_THE_KERNEL__;
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) __EMULATOR_NAME_THE_KERNEL__;
#undef __EMULATOR_NAME_THE_KERNEL__

namespace __emulator {
// Attributes are hints, but for a cluster, which changes what the kernel may do.
static inline bool __single_blocks(const cudaLaunchConfig_t* __configuration) {
    for (unsigned __i = 0; __i < __configuration->numAttrs; ++__i) {
        const cudaLaunchAttribute& __hint = __configuration->attrs[__i];
        const auto& __size = __hint.val.clusterDim;
        if (__hint.id == cudaLaunchAttributeClusterDimension && __size.x * __size.y * __size.z > 1) return false;
    }
    return true;
}
// Behind a pack of arguments there is no room for the place of the call, so it comes with the first one.
struct __placed_configuration {
    const cudaLaunchConfig_t* __pointer;
    int __line;
    const char* __file;
    __placed_configuration(const cudaLaunchConfig_t* __p, int __at = __builtin_LINE(),
                           const char* __in = __builtin_FILE())
        : __pointer(__p), __line(__at), __file(__in) {}
};
}  // namespace __emulator
template <class... _Parameters, class... _Arguments>
static inline cudaError_t cudaLaunchKernelEx(::__emulator::__placed_configuration __placed,
                                             void (*__function)(_Parameters...), _Arguments&&... __arguments) {
    const cudaLaunchConfig_t* __configuration = __placed.__pointer;
    if (!::__emulator::__single_blocks(__configuration)) return cudaErrorNotSupported;
    {
        ::__emulator::Launch __launch_ = ::__emulator::configure(
            __configuration->gridDim, __configuration->blockDim, __configuration->dynamicSmemBytes,
            __configuration->stream, __placed.__line, __placed.__file);
        __function(std::forward<_Arguments>(__arguments)...);
    }
    return cudaPeekAtLastError();
}
template <class... _Parameters>
static inline cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* __configuration,
                                              void (*__function)(_Parameters...), void** __arguments,
                                              __EMULATOR_SITE__) {
    if (!::__emulator::__single_blocks(__configuration)) return cudaErrorNotSupported;
    return cudaLaunchKernel(__function, __configuration->gridDim, __configuration->blockDim, __arguments,
                            __configuration->dynamicSmemBytes, __configuration->stream, __line, __file);
}
template <class... _Parameters>
static inline cudaError_t cudaOccupancyMaxActiveClusters(int* __clusters, void (*)(_Parameters...),
                                                         const cudaLaunchConfig_t* __configuration) {
    *__clusters = ::__emulator::__single_blocks(__configuration) ? __emulator_multiprocessors() : 0;
    return ::__emulator::__single_blocks(__configuration) ? cudaSuccess : cudaErrorNotSupported;
}
