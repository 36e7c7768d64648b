// __constant__, __device__ and __managed__ variables: arrays, structs, initialised, in namespaces.
#include <cstdio>
#include <cstring>

struct Config {
    int rows;
    float scale[2];
};

__constant__ float weights[4];
__constant__ Config config = {3, {0.5f, 2.f}};
static __constant__ int offsets[] = {10, 20, 30}, *unused_pointer;
__device__ int counter = 5, second_counter{6};
__device__ float table[2][3] = {{1, 2, 3}, {4, 5, 6}};
__device__ const double pi = 3.25;
static __device__ unsigned long long big = 1ull << 40;
__device__ __managed__ int managed = 4;
__device__ __align__(16) float aligned[4];
constexpr __device__ int compile_time = 9;
#if __CUDA_ARCH__ >= 700 || !defined(__CUDA_ARCH__)
__device__ float in_condition = 1.5f;
#else
__device__ double in_condition = 2.5;
#endif
namespace settings {
__constant__ int depth = 2;
namespace {
__device__ int hidden = 8;
}
}  // namespace settings
template <typename T>
__device__ T templated = T(7);
template <int N>
__constant__ float templated_array[N] = {1.f, 2.f};

__global__ void read(int* bad) {
    bool ok = weights[2] == 3.f && config.rows == 4 && config.scale[1] == 2.f && offsets[1] == 20;
    ok = ok && counter == 5 && second_counter == 6 && table[1][2] == 6.f && pi == 3.25 && big == 1ull << 40;
    ok = ok && managed == 40 && compile_time == 9 && in_condition == 1.5f && settings::depth == 2;
    ok = ok && settings::hidden == 8 && templated<int> == 7 && templated<float> == 7.f && templated_array<3>[1] == 2.f;
    if (!ok) atomicAdd(bad, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&counter, 2);
        aligned[3] = 4.f;
        table[0][0] = -1.f;
        managed = 41;
    }
}

int main() {
    float host_weights[4] = {1, 2, 3, 4};
    Config host_config = {4, {0.5f, 2.f}};
    int* bad;
    cudaMalloc(&bad, sizeof(int));
    cudaMemset(bad, 0, sizeof(int));
    cudaMemcpyToSymbol(weights, host_weights, sizeof host_weights);
    cudaMemcpyToSymbol(config, &host_config, sizeof(Config));
    managed = 40;
    read<<<1, 32>>>(bad);
    bool ok = cudaDeviceSynchronize() == cudaSuccess && managed == 41;
    int host = -1, count = 0;
    float first = 0, last = 0;
    cudaMemcpy(&host, bad, sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&count, counter, sizeof(int));
    cudaMemcpyFromSymbol(&first, table, sizeof(float));
    cudaMemcpyFromSymbol(&last, aligned, sizeof(float), 3 * sizeof(float), cudaMemcpyDeviceToHost);
    ok = ok && host == 0 && count == 7 && first == -1.f && last == 4.f;

    void* address = nullptr;
    size_t size = 0;
    float* row = nullptr;
    cudaGetSymbolAddress(&address, counter);
    cudaGetSymbolAddress((void**)&row, table);
    cudaGetSymbolSize(&size, table);
    cudaMemset(address, 0, sizeof(int));
    cudaMemcpy(&count, address, sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(&first, row + 5, sizeof(float), cudaMemcpyDeviceToHost);
    ok = ok && count == 0 && size == 24 && first == 6.f;
    ok = ok && cudaMemcpyToSymbol(weights, host_weights, 2 * sizeof host_weights) != cudaSuccess;  // expect: error api
    cudaGetLastError();
    cudaFree(bad);
    puts(ok ? "ok" : "failed");
    return !ok;
}
