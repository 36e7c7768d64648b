// Names that students use for things of their own; none may clash with the emulator's headers.
#ifdef __CUDA_EMULATOR__  // not even in front of its headers; NVIDIA's own do not bear that
#define N 64
#define T float
#define K 3
#define M 2
#define block_size 32
#define lane (threadIdx.x & 31)
#define n_items 4
#define value_ 1
#endif
#include <algorithm>
#include <cmath>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#ifndef __CUDA_EMULATOR__
#define N 64
#define T float
#define K 3
#define M 2
#define block_size 32
#define lane (threadIdx.x & 31)
#define n_items 4
#define value_ 1
#endif
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <numeric>
#include <string>
#include <vector>
using namespace std;
using namespace cooperative_groups;

#define WARP_SIZE 32
#define FULL_MASK 0xffffffff
#define max_threads 1024
#define FLOAT4(x) (*reinterpret_cast<float4*>(&(x)))

constexpr int ceil_div(int a, int b) {
    int r = 0;
    while (r * b < a) r++;
    return r;
}
constexpr int kBlocks = ceil_div(100, N);
static_assert(kBlocks == 2, "constexpr loops stay constexpr");

namespace emulator {
struct Block {
    int size;
};
}
struct Stats {
    float mean, var;
};
struct Thread {
    int id;
};
struct Launch {
    int grid;
};
typedef unsigned int uint;
struct Welford {
    float mean = 0, m2 = 0;
    int count = 0;
    __device__ void add(float x) {
        count++;
        float delta = x - mean;
        mean += delta / count;
        m2 += delta * (x - mean);
    }
};
struct Kernel {
    int configure(int step) { return step; }
    int fault = 0, record = 0, wait = 0, yield = 0;
};
__host__ __device__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__inline__ __device__ float warpReduceSum(float val) {
    for (int mask = WARP_SIZE / 2; mask > 0; mask >>= 1) val += __shfl_xor_sync(FULL_MASK, val, mask, WARP_SIZE);
    return val;
}
template <typename Type>
__inline__ __device__ Type blockReduceSum(Type val) {
    static __shared__ Type shared[32];
    int wid = threadIdx.x >> 5;
    val = warpReduceSum(val);
    if (lane == 0) shared[wid] = val;
    __syncthreads();
    val = (threadIdx.x < (blockDim.x / 32.f)) ? shared[lane] : (Type)0.0f;
    val = warpReduceSum(val);
    return val;
}
__device__ __forceinline__ float atomicMax(float* addr, float value) {
    int old = __float_as_int(value);
    return __int_as_float(atomicMax((int*)addr, old));
}
template <typename U> __noinline__ __device__ U sq(U x) { return x * x; }

__global__ void kernel(T* out, const T* inp, int n) {
    int step = 1, launch = 2, current = 3, heap = 4, stack = 5, block = 6, warp = 7, thread = 8, grid = 9;
    int site = 10, line = 11, file = 12, shared = 13, exit = 14, index = 15, data = 16, size = 17, y0 = 18, j1 = 19;
    emulator::Block b{N};
    Welford w;
    for (int i = 0; i < n; i++) w.add(inp[i]);
    float total = blockReduceSum(1.0f);
    auto tile = tiled_partition<32>(this_thread_block());
    float by_group = cooperative_groups::reduce(tile, 1.0f, cooperative_groups::plus<float>());
    float largest = max(sq(2.f), 3.f), smallest = min(2, 3), absolute = abs(-1.5f);
    float4 quad = FLOAT4(out[4 * threadIdx.x % 64]);
    (void)quad;
    int sum = step + launch + current + heap + stack + block + warp + thread + grid + site + line + file + shared + exit +
              index + data + size + y0 + j1;
    bool bad = isnan(w.mean) || isinf(w.m2);
    __syncthreads();
    out[threadIdx.x] = bad ? -1 : total + by_group + largest + smallest + absolute + sum + b.size + K + M;
}

int main() {
    int blockDim = 64, gridDim = 1, warp_size = 32, min = 3;
    vector<float> host(N, 1.f);
    T *d_inp, *d_out;
    cudaMalloc(&d_inp, N * sizeof(T));
    cudaMalloc(&d_out, N * sizeof(T));
    cudaMemcpy(d_inp, host.data(), N * sizeof(T), cudaMemcpyHostToDevice);
    kernel<<<gridDim, blockDim>>>(d_out, d_inp, N);
    cudaMemcpy(host.data(), d_out, N * sizeof(T), cudaMemcpyDeviceToHost);
    float wanted = 64 + 32 + 4 + 2 + 1.5f + 190 + N + K + M;
    bool ok = host[5] == wanted && std::max(1, 2) == 2 && std::min(warp_size, min) == 3;
    Kernel k;
    ok = ok && k.configure(2) == 2;
    string text = "k<<<1, 2>>>(x) /* not a launch */ asm(\"\")";
    ok = ok && text.size() == 41 && cudaDeviceSynchronize() == cudaSuccess;
    puts(ok ? "ok" : "failed");
    if (!ok) printf("%f instead of %f, %zu\n", host[5], wanted, text.size());
    cudaFree(d_inp);
    cudaFree(d_out);
    return !ok;
}
