// A sum over the whole grid in one kernel: the last block to finish adds up the partial sums.
#include <cstdio>
#include <vector>

__device__ unsigned int blocks_done = 0;

template <int Threads>
__device__ float block_sum(float value) {
    __shared__ float values[Threads];
    int t = threadIdx.x;
    values[t] = value;
    __syncthreads();
#pragma unroll
    for (int stride = Threads / 2; stride >= 32; stride /= 2) {
        if (t < stride) values[t] += values[t + stride];
        __syncthreads();
    }
    float sum = 0;
    if (t < 32) {
        sum = values[t];
        for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    __syncthreads();
    return sum;
}

template <int Threads>
__global__ void sum_all(const float* __restrict__ inp, volatile float* partial, float* out, int n) {
    __shared__ bool is_last;
    float sum = 0;
    for (int i = blockIdx.x * Threads + threadIdx.x; i < n; i += gridDim.x * Threads) sum += inp[i];
    sum = block_sum<Threads>(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        unsigned int ticket = atomicInc(&blocks_done, gridDim.x);
        is_last = ticket == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) {
        sum = 0;
        for (int i = threadIdx.x; i < gridDim.x; i += Threads) sum += partial[i];
        sum = block_sum<Threads>(sum);
        if (threadIdx.x == 0) {
            *out = sum;
            blocks_done = 0;
        }
    }
}

int main() {
    const int n = 100000, blocks = 37;
    std::vector<float> host(n, 0.25f);
    float *inp, *partial, *out, sum = 0;
    cudaMalloc(&inp, n * sizeof(float));
    cudaMalloc(&partial, blocks * sizeof(float));
    cudaMalloc(&out, sizeof(float));
    cudaMemcpy(inp, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    bool ok = true;
    for (int repeat = 0; repeat < 2; repeat++) {
        sum_all<128><<<blocks, 128>>>(inp, partial, out, n);
        ok = ok && cudaMemcpy(&sum, out, sizeof(float), cudaMemcpyDeviceToHost) == cudaSuccess && sum == n * 0.25f;
    }
    cudaFree(inp);
    cudaFree(partial);
    cudaFree(out);
    puts(ok ? "ok" : "failed");
    return !ok;
}
