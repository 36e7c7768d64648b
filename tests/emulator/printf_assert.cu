// printf and assert on the device, clocks, and the C library functions that kernels call.
#include <assert.h>
#include <cassert>
#include <cstdio>
#include <cstring>

__device__ void say(const char* what, double value) { printf("%s=%g\n", what, value); }

__global__ void talk(int* bad) {
    assert(blockDim.x == 4 && "comma, in a string");
    assert((std::size_t)threadIdx.x < 4);
    printf("thread %d %s %5.2f %c%%\n", threadIdx.x, "says", 1.5f * threadIdx.x, 'x');
    if (threadIdx.x == 3) say("last", 2.5);
    long long start = clock64();
    clock_t before = clock();
    for (int i = 0; i < 100; i++) {}
    if (clock64() < start || clock() < before) *bad = 1;
    __nanosleep(10);
    int values[4], copy[4];
    memset(values, 0, sizeof values);
    memcpy(copy, values, sizeof values);
    if (copy[3] != 0) *bad = 1;
    int* heap = (int*)malloc(sizeof(int) * 4);
    heap[1] = 3;
    free(heap);
    float* object = new float[2];
    delete[] object;
}

int main() {
    int* bad;
    int host = -1;
    cudaMalloc(&bad, sizeof(int));
    cudaMemset(bad, 0, sizeof(int));
    talk<<<1, 4>>>(bad);
    cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(&host, bad, sizeof(int), cudaMemcpyDeviceToHost);
    cudaFree(bad);
    std::printf("%s\n", error == cudaSuccess && host == 0 ? "ok" : "failed");
    return error != cudaSuccess || host != 0;
}
