#include <cuda_runtime.h>

#define BLOCKS 16
#define THREADS 256

__device__ float block_sum(float v) {
  __shared__ float sums[THREADS / 32];
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.0f;
  for (int i = 0; i < THREADS / 32; i++) v += sums[i];
  __syncthreads();
  return v;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int rows, int hidden_dim) {
  for (int row = blockIdx.x; row < rows; row += BLOCKS) {
    const float* x = inp + (size_t)row * hidden_dim;
    float* y = ln_res + (size_t)row * hidden_dim;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < hidden_dim; i += THREADS) sum += x[i];
    float mean = block_sum(sum) / hidden_dim;
    float sq = 0.0f;
    for (int i = threadIdx.x; i < hidden_dim; i += THREADS) sq += (x[i] - mean) * (x[i] - mean);
    float var = block_sum(sq) / hidden_dim;
    if (threadIdx.x == 0) {
      means[row] = mean;
      vars[row] = var;
    }
    float rstd = rsqrtf(var + LN_EPSILON);
    for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
      y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
    }
  }
}

// Blocks of 32 x 8 threads, each for 32 columns at a time.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  __shared__ float gammas[8][32];
  __shared__ float bettas[8][32];
  for (int first = blockIdx.x * 32; first < hidden_dim; first += BLOCKS * 32) {
    int col = first + threadIdx.x;
    float dgamma = 0.0f;
    float dbetta = 0.0f;
    if (col < hidden_dim) {
      for (int row = threadIdx.y; row < rows; row += 8) {
        size_t i = (size_t)row * hidden_dim + col;
        dgamma += out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
        dbetta += out_grad[i];
      }
    }
    gammas[threadIdx.y][threadIdx.x] = dgamma;
    bettas[threadIdx.y][threadIdx.x] = dbetta;
    __syncthreads();
    if (threadIdx.y == 0 && col < hidden_dim) {
      for (int i = 1; i < 8; i++) {
        dgamma += gammas[i][threadIdx.x];
        dbetta += bettas[i][threadIdx.x];
      }
      gamma_grad[col] = dgamma;
      betta_grad[col] = dbetta;
    }
    __syncthreads();  // the next columns use the same shared memory
  }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means, int rows,
                               int hidden_dim) {
  for (int row = blockIdx.x; row < rows; row += BLOCKS) {
    size_t offset = (size_t)row * hidden_dim;
    const float* dy = out_grad + offset;
    const float* x = inp + offset;
    float mean = means[row];
    float rstd = rsqrtf(vars[row] + LN_EPSILON);
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
      inp_grad[offset + i] = (dy[i] * gamma[i] - sum1 - xhat * sum2) * rstd;
    }
  }
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  ker_layer_norm<<<BLOCKS, THREADS, 0, stream>>>(ln_res, vars, means, inp, gamma, beta, rows,
                                                 hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dgamma_dbetta<<<BLOCKS, dim3(32, 8), 0, stream>>>(gamma_grad, beta_grad, out_grad, inp,
                                                              vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<BLOCKS, THREADS, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars, means, rows,
                                                 hidden_dim);
}
