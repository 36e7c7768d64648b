#pragma once
#include "detail/helpers.hpp"

extern __device__ int shift;

__global__ void fill(float* data, int n);
void launch_shift(float* data, int n);

template <typename T>
__global__ void scale_by(T* data, T factor) {
    __shared__ T staged[64];
    staged[threadIdx.x] = data[threadIdx.x];
    __syncthreads();
    data[threadIdx.x] = factor * staged[threadIdx.x];
}
