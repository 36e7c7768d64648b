// The contract of the tensor assignment; all arrays are row-major.
//     sums[b][r]       = sum over c of a[b][r][c]
//     shifted[b][r][c] = a[b][r][c] + bias[c]
#pragma once
#include <cuda_runtime.h>

extern "C" {
void launch_row_sums(float* sums, const float* a, int batch, int rows, int cols,
                     cudaStream_t stream);
void launch_add_bias(float* shifted, const float* a, const float* bias, int batch, int rows,
                     int cols, cudaStream_t stream);
}
