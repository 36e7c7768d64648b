// Streams and events that are destroyed twice are errors, not crashes.
#include <cstdio>

int main() {
    cudaStream_t stream;
    cudaEvent_t event;
    cudaStreamCreate(&stream);
    cudaEventCreate(&event);
    bool right = cudaStreamDestroy(stream) == cudaSuccess && cudaEventDestroy(event) == cudaSuccess;
    right = right && cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle;
    right = right && cudaEventDestroy(event) == cudaErrorInvalidResourceHandle;
    right = right && cudaGetLastError() == cudaErrorInvalidResourceHandle && cudaGetLastError() == cudaSuccess;
    puts(right ? "ok" : "wrong");
}
