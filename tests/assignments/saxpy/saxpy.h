// The contract of the saxpy assignment: out[i] = SAXPY_A * x[i] + y[i] for i < n.
#pragma once
#include <cuda_runtime.h>

constexpr float SAXPY_A = 2.5f;

extern "C" void launch_saxpy(float* out, const float* x, const float* y, int n,
                             cudaStream_t stream);
