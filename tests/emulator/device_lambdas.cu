// Extended lambdas, functors and function templates as arguments of kernels.
#include <cstdio>

template <typename F>
__global__ void for_each(int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i);
}

template <typename T, typename Operation>
__global__ void transform(T* data, int n, Operation operation) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = operation(data[i]);
}

struct Scale {
    float factor;
    __host__ __device__ float operator()(float x) const { return factor * x; }
};

template <typename F>
void launch(int n, F&& f) {
    for_each<<<2, 64>>>(n, f);
}

template <typename Op>
__device__ float block_reduce(float value, Op op) {
    __shared__ float partial[32];
    auto warp_reduce = [&](float v) {
        for (int offset = 16; offset > 0; offset >>= 1) v = op(v, __shfl_xor_sync(0xffffffff, v, offset));
        return v;
    };
    value = warp_reduce(value);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[threadIdx.x % (blockDim.x / 32)];
    return warp_reduce(value);
}

__global__ void maximum(float* out, const float* in, int n) {
    float best = -1e30f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) best = fmaxf(best, in[i]);
    best = block_reduce(best, [] __device__(float a, float b) { return fmaxf(a, b); });
    if (threadIdx.x == 0) *out = best;
}

int main() {
    const int n = 1000;
    float *data, *out, host[n], best = 0;
    cudaMalloc(&data, n * sizeof(float));
    cudaMalloc(&out, sizeof(float));
    float offset = 0.5f;
    launch(n, [=] __device__(int i) { data[i] = i + offset; });
    for_each<<<1, 32>>>(n, [data] __host__ __device__(int i) mutable { data[i] += 1; });
    transform<<<(n + 255) / 256, 256>>>(data, n, Scale{2.f});
    maximum<<<1, 128>>>(out, data, n);
    cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost);
    cudaMemcpy(&best, out, sizeof(float), cudaMemcpyDeviceToHost);
    bool ok = error == cudaSuccess && best == 2.f * (n + 0.5f);
    for (int i = 0; i < n; i++) ok = ok && host[i] == 2.f * (i + 1.5f);
    cudaFree(data);
    cudaFree(out);
    puts(ok ? "ok" : "failed");
    return !ok;
}
