#pragma once
#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#define TILE_DIM 32

__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  __shared__ float betta_buffer[TILE_DIM][TILE_DIM + 1];
  __shared__ float gamma_buffer[TILE_DIM][TILE_DIM + 1];

  cg::thread_block b = cg::this_thread_block();
  cg::thread_block_tile<TILE_DIM> g = cg::tiled_partition<TILE_DIM>(b);

  // Step 1: partial sums over the rows
  int col = blockIdx.x * TILE_DIM + threadIdx.x;
  float dbetta = 0.0f;
  float dgamma = 0.0f;
  if (col < hidden_dim) {
    for (int row = threadIdx.y; row < rows; row += TILE_DIM) {
      size_t idx = (size_t)row * hidden_dim + col;
      float xhat = (inp[idx] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
      dbetta += out_grad[idx];
      dgamma += out_grad[idx] * xhat;
    }
  }

  // Step 2: store them in shared memory
  betta_buffer[threadIdx.y][threadIdx.x] = dbetta;
  gamma_buffer[threadIdx.y][threadIdx.x] = dgamma;
  __syncthreads();

  // Step 3: each warp reduces one column
  dbetta = betta_buffer[threadIdx.x][threadIdx.y];
  dgamma = gamma_buffer[threadIdx.x][threadIdx.y];
  for (int i = TILE_DIM / 2; i > 0; i /= 2) {
    dbetta += g.shfl_down(dbetta, i);
    dgamma += g.shfl_down(dgamma, i);
  }

  // Step 4: write
  int out = blockIdx.x * TILE_DIM + threadIdx.y;
  if (threadIdx.x == 0 && out < hidden_dim) {
    betta_grad[out] = dbetta;
    gamma_grad[out] = dgamma;
  }
}
