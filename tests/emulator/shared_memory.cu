// Shared memory of every kind: static, dynamic, unions, structs, vectors, templated sizes.
#include <cstdio>

__shared__ int at_namespace_scope[4];
extern __shared__ double doubles_at_namespace_scope[];

struct Stats {
    float mean;
    float m2;
    int count;
};

template <typename T>
struct SharedMemory {
    __device__ operator T*() {
        extern __shared__ __align__(16) unsigned char raw_bytes[];
        return reinterpret_cast<T*>(raw_bytes);
    }
};

template <int Rows, int Columns>
__device__ float transposed_sum() {
    __shared__ float tile[Rows][Columns + 1];
    tile[threadIdx.x / Columns][threadIdx.x % Columns] = threadIdx.x;
    __syncthreads();
    return tile[threadIdx.x % Rows][threadIdx.x / Rows];
}

__device__ int helper(int value) {
    __shared__ int slots[64];
    slots[threadIdx.x] = value;
    __syncthreads();
    int result = slots[63 - threadIdx.x];
    __syncthreads();
    return result;
}

__global__ void statics(int* bad) {
    __shared__ int a[64], b[2][32], scalar;
    __shared__ float4 vectors[16];
    __shared__ Stats stats[32];
    __shared__ volatile int flag;
    static __shared__ int written_static;
    __shared__ alignas(16) float aligned[8];
    __shared__ __align__(8) char bytes[24];
    __shared__ union {
        float floats[4];
        unsigned words[4];
    } both;
    int t = threadIdx.x;
    a[t] = t;
    b[t / 32][t % 32] = t;
    if (t < 16) vectors[t] = make_float4(t, t + 1, t + 2, t + 3);
    if (t < 32) stats[t] = {float(t), 0.f, t};
    if (t == 0) {
        scalar = 5;
        flag = 6;
        written_static = 7;
        both.floats[1] = 1.0f;
        aligned[7] = 8.f;
        bytes[23] = 9;
        at_namespace_scope[3] = 10;
    }
    __syncthreads();
    bool ok = a[63 - t] == 63 - t && b[1][5] == 37 && vectors[3].w == 6.f && stats[31].count == 31;
    ok = ok && scalar == 5 && flag == 6 && written_static == 7 && both.words[1] == 0x3f800000u;
    ok = ok && aligned[7] == 8.f && bytes[23] == 9 && at_namespace_scope[3] == 10;
    ok = ok && ((size_t)aligned % 16) == 0 && ((size_t)vectors % 16) == 0;
    ok = ok && helper(t) == 63 - t && transposed_sum<8, 8>() == t % 8 * 8 + t / 8;
    // nested lambdas see shared arrays by reference
    auto read = [=](int i) { return a[i]; };
    ok = ok && read(7) == 7;
    if (!ok) atomicAdd(bad, 1);
}

__global__ void dynamic_floats(int* bad, int n) {
    extern __shared__ __align__(16) float values[];
    float* second = values + n;
    int* counts = (int*)&second[n];
    values[threadIdx.x] = threadIdx.x;
    second[threadIdx.x] = 2.f * threadIdx.x;
    counts[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int other = n - 1 - threadIdx.x;
    float4 four = reinterpret_cast<float4*>(values)[1];
    bool ok = values[other] == other && second[other] == 2.f * other && counts[other] == other && four.x == 4.f;
    if (!ok) atomicAdd(bad, 1);
}

template <typename T>
__global__ void dynamic_template(int* bad) {
    T* values = SharedMemory<T>();
    values[threadIdx.x] = T(threadIdx.x);
    __syncthreads();
    if (values[31 - threadIdx.x] != T(31 - threadIdx.x)) atomicAdd(bad, 1);
}

__global__ void dynamic_rows(int* bad) {
    extern __shared__ int rows[][8];
    rows[threadIdx.x / 8][threadIdx.x % 8] = threadIdx.x;
    doubles_at_namespace_scope[64 + threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (rows[3][7] != 31 || doubles_at_namespace_scope[64 + 31] != 31.0) atomicAdd(bad, 1);
}

// Shared memory does not survive from one block to the next.
__global__ void fresh(int* bad) {
    __shared__ int left_over[32];
    if (left_over[threadIdx.x] == 12345) atomicAdd(bad, 1);  // expect: error uninitialised_shared
    left_over[threadIdx.x] = 12345;
}

__global__ void much(int* bad, int count) {
    extern __shared__ int many[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) many[i] = i;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        if (many[count - 1 - i] != count - 1 - i) atomicAdd(bad, 1);
    }
}

int main() {
    int* bad;
    int host = -1;
    cudaMalloc(&bad, sizeof(int));
    cudaMemset(bad, 0, sizeof(int));
    statics<<<3, 64>>>(bad);
    dynamic_floats<<<2, 64, 3 * 64 * sizeof(float)>>>(bad, 64);
    dynamic_template<double><<<1, 32, 32 * sizeof(double)>>>(bad);
    dynamic_template<short><<<1, 32, 32 * sizeof(short)>>>(bad);
    dynamic_rows<<<1, 32, 96 * sizeof(double)>>>(bad);
#ifdef __CUDA_EMULATOR__
    fresh<<<4, 32>>>(bad);
#endif
    const int bytes = 96 * 1024;
    cudaFuncSetAttribute(much, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    much<<<2, 128, bytes>>>(bad, bytes / 4);
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) printf("%s\n", cudaGetErrorString(error));
    cudaMemcpy(&host, bad, sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(bad);
    puts(host == 0 ? "ok" : "failed");
    return host != 0;
}
