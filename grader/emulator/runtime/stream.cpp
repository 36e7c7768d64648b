// Streams and events. All work is done by the time the call that asks for it returns.
#include <chrono>
#include <set>

#include "../include/emulator/runtime_api.h"
#include "check_streams.h"
#include "error.h"
#include "launch.h"

using namespace emulator;

struct CUstream_st {
    unsigned int flags;
    int priority;
};
struct CUevent_st {
    unsigned int flags;
    bool recorded;
    std::chrono::steady_clock::time_point at;
};

// What was created and not destroyed yet. Never destroyed itself: static objects may come later.
namespace emulator {
static std::set<const void*>& handles() {
    static auto& live = *new std::set<const void*>;
    return live;
}
}  // namespace emulator

template <class Handle>
static Handle* created(Handle* handle) {
    const Turn mine;
    handles().insert(handle);
    return handle;
}
template <class Handle>
static cudaError_t destroyed(Handle* handle) {
    const Turn mine;
    if (handles().erase(handle) == 0) return finish(cudaErrorInvalidResourceHandle);
    delete handle;
    return finish(cudaSuccess);
}

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
    if (stream == nullptr) return finish(cudaErrorInvalidValue);
    *stream = created(new CUstream_st{flags, priority});
    const Turn mine;
    checker::stream_made(*stream, (flags & cudaStreamNonBlocking) == 0);
    return finish(cudaSuccess);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
static bool is_default(cudaStream_t stream) { return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread; }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const Turn mine;
    checker::stream_gone(stream);
    return destroyed(stream);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const Turn mine;
    checker::wait_for_stream(stream);
    return finish(cudaSuccess);
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    *priority = is_default(stream) ? 0 : stream->priority;
    return finish(cudaSuccess);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
    *flags = is_default(stream) ? 0 : stream->flags;
    return finish(cudaSuccess);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
    if (event == nullptr) return finish(cudaErrorInvalidResourceHandle);
    const Turn mine;
    checker::make_stream_wait(stream, event);
    return finish(cudaSuccess);
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned int) {
    callback(stream, sticky_error(), data);
    return finish(cudaSuccess);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
    function(data);
    return finish(cudaSuccess);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return finish(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
    if (event == nullptr) return finish(cudaErrorInvalidValue);
    *event = created(new CUevent_st{flags, false, {}});
    return finish(cudaSuccess);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    const Turn mine;
    checker::forget_event(event);
    return destroyed(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (event == nullptr) return finish(cudaErrorInvalidResourceHandle);
    const Turn mine;
    checker::record_event(event, stream);
    event->recorded = true;
    event->at = std::chrono::steady_clock::now();
    return finish(cudaSuccess);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (event == nullptr) return finish(cudaErrorInvalidResourceHandle);
    const Turn mine;
    checker::wait_for_event(event);
    return finish(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    if (start == nullptr || end == nullptr || milliseconds == nullptr) return finish(cudaErrorInvalidValue);
    const bool timed = start->recorded && end->recorded && ((start->flags | end->flags) & cudaEventDisableTiming) == 0;
    if (!timed) return finish(cudaErrorInvalidResourceHandle);
    *milliseconds = std::chrono::duration<float, std::milli>(end->at - start->at).count();
    return finish(cudaSuccess);
}
}
