// The storage is used again before all threads are done with it.
#include <cub/cub.cuh>

__global__ void sums(float* x) {
    using Reduce = cub::BlockReduce<float, 64>;
    __shared__ typename Reduce::TempStorage storage;
    float a = Reduce(storage).Sum(x[threadIdx.x]);
    float b = Reduce(storage).Sum(x[threadIdx.x] * 2);  // expect: error race_shared
    if (threadIdx.x == 0) x[0] = a + b;
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    sums<<<1, 64>>>(x);
    cudaDeviceSynchronize();
}
