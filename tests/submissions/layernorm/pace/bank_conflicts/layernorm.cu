#include <cuda_runtime.h>

#define THREADS 256
#define STRIDE 32  // words between the slots of two threads: all of them lie in one bank

// The sum over the block, by a tree; every thread gets it.
__device__ float block_sum(float v) {
  __shared__ float slots[THREADS * STRIDE];
  slots[threadIdx.x * STRIDE] = v;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      slots[threadIdx.x * STRIDE] += slots[(threadIdx.x + half) * STRIDE];
    }
    __syncthreads();
  }
  v = slots[0];
  __syncthreads();
  return v;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
  const float* x = inp + (size_t)blockIdx.x * hidden_dim;
  float* y = ln_res + (size_t)blockIdx.x * hidden_dim;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) sum += x[i];
  float mean = block_sum(sum) / hidden_dim;

  float sq = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) sq += (x[i] - mean) * (x[i] - mean);
  float var = block_sum(sq) / hidden_dim;

  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    vars[blockIdx.x] = var;
  }
  float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
  }
}

#define TILE 32

// Every tile of 32 x 32 elements goes through shared memory and is turned over there, so that a
// warp holds a column; its lanes are added up at the end.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  __shared__ float gammas[TILE][TILE];
  __shared__ float bettas[TILE][TILE];
  int col = blockIdx.x * TILE + threadIdx.x;
  float dgamma = 0.0f;
  float dbetta = 0.0f;
  for (int first = blockIdx.y * TILE; first < rows; first += gridDim.y * TILE) {
    int row = first + threadIdx.y;
    float g = 0.0f;
    float b = 0.0f;
    if (row < rows && col < hidden_dim) {
      size_t i = (size_t)row * hidden_dim + col;
      b = out_grad[i];
      g = b * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
    }
    gammas[threadIdx.y][threadIdx.x] = g;
    bettas[threadIdx.y][threadIdx.x] = b;
    __syncthreads();
    dgamma += gammas[threadIdx.x][threadIdx.y];
    dbetta += bettas[threadIdx.x][threadIdx.y];
    __syncthreads();
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    dgamma += __shfl_down_sync(0xffffffffu, dgamma, offset);
    dbetta += __shfl_down_sync(0xffffffffu, dbetta, offset);
  }
  int out = blockIdx.x * TILE + threadIdx.y;
  if (threadIdx.x == 0 && out < hidden_dim) {
    atomicAdd(gamma_grad + out, dgamma);
    atomicAdd(betta_grad + out, dbetta);
  }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
  size_t offset = (size_t)blockIdx.x * hidden_dim;
  const float* dy = out_grad + offset;
  const float* x = inp + offset;
  float* dx = inp_grad + offset;
  float mean = means[blockIdx.x];
  float rstd = rsqrtf(vars[blockIdx.x] + LN_EPSILON);

  float sum1 = 0.0f;
  float sum2 = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    float dxhat = dy[i] * gamma[i];
    sum1 += dxhat;
    sum2 += dxhat * ((x[i] - mean) * rstd);
  }
  sum1 = block_sum(sum1) / hidden_dim;
  sum2 = block_sum(sum2) / hidden_dim;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    float xhat = (x[i] - mean) * rstd;
    dx[i] = (dy[i] * gamma[i] - sum1 - xhat * sum2) * rstd;
  }
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  ker_layer_norm<<<rows, THREADS, 0, stream>>>(ln_res, vars, means, inp, gamma, beta, hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  cudaMemsetAsync(gamma_grad, 0, hidden_dim * sizeof(float), stream);
  cudaMemsetAsync(beta_grad, 0, hidden_dim * sizeof(float), stream);
  int tiles = (rows + TILE - 1) / TILE;
  dim3 grid((hidden_dim + TILE - 1) / TILE, tiles < 16 ? tiles : 16);
  ker_ln_bw_dgamma_dbetta<<<grid, dim3(TILE, TILE), 0, stream>>>(
      gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<rows, THREADS, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars, means,
                                               hidden_dim);
}
