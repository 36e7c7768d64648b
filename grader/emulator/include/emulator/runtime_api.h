// The host side of the runtime API: memory, streams, events, devices. Work on a stream is done when
// the call that asks for it returns, so streams keep their order by themselves.
#pragma once

#include "errors.h"
#include "properties.h"
#include "vector_types.h"

enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaMemoryType {
    cudaMemoryTypeUnregistered,
    cudaMemoryTypeHost,
    cudaMemoryTypeDevice,
    cudaMemoryTypeManaged
};
struct cudaPointerAttributes {
    enum cudaMemoryType type;
    int device;
    void* devicePointer;
    void* hostPointer;
};
enum cudaMemoryAdvise {
    cudaMemAdviseSetReadMostly = 1,
    cudaMemAdviseUnsetReadMostly,
    cudaMemAdviseSetPreferredLocation,
    cudaMemAdviseUnsetPreferredLocation,
    cudaMemAdviseSetAccessedBy,
    cudaMemAdviseUnsetAccessedBy
};

enum cudaMemPoolAttr {
    cudaMemPoolReuseFollowEventDependencies = 1,
    cudaMemPoolReuseAllowOpportunistic,
    cudaMemPoolReuseAllowInternalDependencies,
    cudaMemPoolAttrReleaseThreshold,
    cudaMemPoolAttrReservedMemCurrent,
    cudaMemPoolAttrReservedMemHigh,
    cudaMemPoolAttrUsedMemCurrent,
    cudaMemPoolAttrUsedMemHigh
};

// The configuration of cudaLaunchKernelEx.
enum cudaLaunchAttributeID {
    cudaLaunchAttributeIgnore = 0,
    cudaLaunchAttributeAccessPolicyWindow = 1,
    cudaLaunchAttributeCooperative = 2,
    cudaLaunchAttributeSynchronizationPolicy = 3,
    cudaLaunchAttributeClusterDimension = 4,
    cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
    cudaLaunchAttributeProgrammaticStreamSerialization = 6,
    cudaLaunchAttributeProgrammaticEvent = 7,
    cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
    char pad[64];
    int cooperative;
    struct {
        unsigned int x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
    int priority;
};
struct cudaLaunchAttribute {
    enum cudaLaunchAttributeID id;
    union cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim;
    dim3 blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    struct cudaLaunchAttribute* attrs;
    unsigned int numAttrs;
};

#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04
#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
#define cudaMemAttachGlobal 0x01
#define cudaMemAttachHost 0x02
#define cudaMemAttachSingle 0x04
#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventInterprocess 0x04
#define cudaEventRecordDefault 0x00
#define cudaEventWaitDefault 0x00
#define cudaDeviceScheduleAuto 0x00
#define cudaDeviceScheduleSpin 0x01
#define cudaDeviceScheduleYield 0x02
#define cudaDeviceScheduleBlockingSync 0x04
#define cudaDeviceMapHost 0x08
#define cudaOccupancyDefault 0x00
#define cudaCpuDeviceId ((int)-1)
#define cudaInvalidDeviceId ((int)-2)

extern "C" {
// errors
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char* cudaGetErrorString(cudaError_t __error);
const char* cudaGetErrorName(cudaError_t __error);

// memory; the templates that students call are in runtime_templates.h
cudaError_t __emulator_malloc(void** __pointer, size_t __size, int __line, const char* __file);
cudaError_t __emulator_malloc_host(void** __pointer, size_t __size);
cudaError_t __emulator_malloc_managed(void** __pointer, size_t __size, int __line, const char* __file);
cudaError_t __emulator_memcpy(void* __to, const void* __from, size_t __size, enum cudaMemcpyKind __kind, int __line,
                              const char* __file);
cudaError_t __emulator_memcpy_async(void* __to, const void* __from, size_t __size, enum cudaMemcpyKind __kind,
                                    cudaStream_t __stream, int __line, const char* __file);
cudaError_t __emulator_memcpy2d(void* __to, size_t __to_pitch, const void* __from, size_t __from_pitch,
                                size_t __width, size_t __height, enum cudaMemcpyKind __kind, cudaStream_t __stream,
                                int __line, const char* __file);
cudaError_t __emulator_memset(void* __to, int __value, size_t __size, cudaStream_t __stream, int __line,
                              const char* __file);
cudaError_t __emulator_free(void* __pointer, int __line, const char* __file);
cudaError_t cudaFreeHost(void* __pointer);
cudaError_t cudaHostRegister(void* __pointer, size_t __size, unsigned int __flags);
cudaError_t cudaHostUnregister(void* __pointer);
cudaError_t cudaMemGetInfo(size_t* __free, size_t* __total);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* __attributes, const void* __pointer);
// Checks that `__count` bytes at `__offset` lie in a device variable of `__size` bytes at `__address`, and
// copies them to or from host memory, whichever is given.
cudaError_t __emulator_symbol(void* __address, size_t __size, size_t __offset, size_t __count, const void* __from,
                              void* __to, int __line, const char* __file);

// memory pools: there is one, and its settings change nothing
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* __pool, int __device);
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* __pool, int __device);
cudaError_t cudaDeviceSetMemPool(int __device, cudaMemPool_t __pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t __pool, enum cudaMemPoolAttr __which, void* __value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t __pool, enum cudaMemPoolAttr __which, void* __value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t __pool, size_t __bytes_to_keep);

// streams
cudaError_t cudaStreamCreate(cudaStream_t* __stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* __stream, unsigned int __flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* __stream, unsigned int __flags, int __priority);
cudaError_t cudaStreamDestroy(cudaStream_t __stream);
cudaError_t cudaStreamSynchronize(cudaStream_t __stream);
cudaError_t cudaStreamQuery(cudaStream_t __stream);
cudaError_t cudaStreamGetPriority(cudaStream_t __stream, int* __priority);
cudaError_t cudaStreamGetFlags(cudaStream_t __stream, unsigned int* __flags);
cudaError_t cudaStreamWaitEvent(cudaStream_t __stream, cudaEvent_t __event, unsigned int __flags = 0);
cudaError_t cudaStreamAddCallback(cudaStream_t __stream, cudaStreamCallback_t __callback, void* __data,
                                  unsigned int __flags);
cudaError_t cudaLaunchHostFunc(cudaStream_t __stream, cudaHostFn_t __function, void* __data);
cudaError_t cudaDeviceGetStreamPriorityRange(int* __least, int* __greatest);

// events
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* __event, unsigned int __flags);
cudaError_t cudaEventDestroy(cudaEvent_t __event);
cudaError_t cudaEventRecord(cudaEvent_t __event, cudaStream_t __stream = 0);
cudaError_t cudaEventSynchronize(cudaEvent_t __event);
cudaError_t cudaEventQuery(cudaEvent_t __event);
cudaError_t cudaEventElapsedTime(float* __milliseconds, cudaEvent_t __start, cudaEvent_t __end);

// devices
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void);
cudaError_t cudaGetDeviceCount(int* __count);
cudaError_t cudaGetDevice(int* __device);
cudaError_t cudaSetDevice(int __device);
cudaError_t cudaSetDeviceFlags(unsigned int __flags);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* __properties, int __device);
cudaError_t cudaDeviceGetAttribute(int* __value, enum cudaDeviceAttr __which, int __device);
cudaError_t cudaDeviceSetLimit(enum cudaLimit __limit, size_t __value);
cudaError_t cudaDeviceGetLimit(size_t* __value, enum cudaLimit __limit);
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache __config);
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig __config);
cudaError_t cudaDeviceCanAccessPeer(int* __can, int __device, int __peer);
cudaError_t cudaRuntimeGetVersion(int* __version);
cudaError_t cudaDriverGetVersion(int* __version);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

// functions
cudaError_t __emulator_set_attribute(const void* __function, enum cudaFuncAttribute __which, int __value, int __line,
                                     const char* __file);
cudaError_t __emulator_get_attributes(struct cudaFuncAttributes* __attributes, const void* __function);
cudaError_t __emulator_max_active_blocks(int* __blocks, const void* __function, int __block_size,
                                         size_t __shared_bytes);
int __emulator_multiprocessors(void);
}
