// Work on several streams that is in order, or has nothing to do with each other.
__global__ void fill(float* x, float value) {
    x[threadIdx.x] = value;
}
__global__ void twice(float* x) {
    x[threadIdx.x] *= 2.0f;
}
__global__ void add(float* x) {
    atomicAdd(&x[threadIdx.x], 1.0f);
}
int main() {
    float *x, host[64];
    cudaMalloc(&x, 64 * sizeof(float));
    cudaStream_t a, b, blocking;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaStreamCreate(&blocking);
    cudaEvent_t event, joined;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventCreate(&joined);
    // an event
    cudaMemsetAsync(x, 0, 64 * sizeof(float), a);
    fill<<<1, 64, 0, a>>>(x, 1.0f);
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event);
    twice<<<1, 64, 0, b>>>(x);
    // the host waits
    cudaStreamSynchronize(b);
    twice<<<1, 64, 0, a>>>(x);
    cudaEventRecord(joined, a);
    cudaEventSynchronize(joined);
    // the default stream and one that waits for it
    twice<<<1, 64>>>(x);
    twice<<<1, 64, 0, blocking>>>(x);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    // each its own half, then together
    fill<<<1, 32, 0, a>>>(x, 1.0f);
    fill<<<1, 32, 0, b>>>(x + 32, 2.0f);
    cudaEventRecord(event, b);
    cudaStreamWaitEvent(a, event);
    twice<<<1, 64, 0, a>>>(x);
    cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, a);
    cudaStreamSynchronize(a);
    // atomics, at the same time
    cudaStreamWaitEvent(b, event);
    add<<<1, 64, 0, a>>>(x);
    add<<<1, 64, 0, b>>>(x);
    cudaDeviceSynchronize();
    // a copy of one half to the other
    cudaMemcpyAsync(x + 32, x, 32 * sizeof(float), cudaMemcpyDeviceToDevice, a);
    cudaDeviceSynchronize();
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaFree(x);
}
