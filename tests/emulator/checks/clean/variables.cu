// Variables of the device, constants, tables, static and managed ones.
#include <cstdio>

__constant__ float weights[8];
__device__ float results[64];
__device__ int counter = 5;
__managed__ int shared_with_host;
template <typename T>
__device__ T scale_of = T(3);
__constant__ const float kTable[4] = {1.0f, 2.0f, 4.0f, 8.0f};
struct Settings {
    float a, b;
    int n;
};

__device__ int calls() {
    static int count;
    return atomicAdd(&count, 1);
}
__global__ void all(Settings settings, const float* x) {
    float local[8];
    for (int i = 0; i < 8; i++) local[(i * 3) % 8] = weights[i] * kTable[i % 4];
    float sum = settings.a * settings.b + scale_of<float>;
    for (int i = 0; i < settings.n; i++) sum += local[i] + x[i];
    results[threadIdx.x] = sum;
    if (threadIdx.x == 0) {
        shared_with_host = counter + calls();
        atomicAdd(&counter, 1);
    }
}
__global__ void again(float* out) {
    out[threadIdx.x] = results[63 - threadIdx.x];
    if (threadIdx.x == 0) counter = 0;
}
int main() {
    float host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *x, *pinned;
    cudaMemcpyToSymbol(weights, host, sizeof host);
    cudaMalloc(&x, 64 * sizeof(float));
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMallocHost(&pinned, sizeof host);
    for (float& value : host) pinned[&value - host] = value;
    all<<<1, 64>>>({1.0f, 2.0f, 8}, x);
    all<<<1, 64>>>({1.0f, 2.0f, 8}, pinned);
    again<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    shared_with_host = 1;
}
