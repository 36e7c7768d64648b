#include <cuda_runtime.h>

#define THREADS 256
#define TILE_ROWS 4

// The sum of one value per thread, which every thread gets: an atomic for each of them.
__device__ float block_sum(float v, float* slot) {
  __syncthreads();
  if (threadIdx.x == 0) *slot = 0.0f;
  __syncthreads();
  atomicAdd(slot, v);
  __syncthreads();
  return *slot;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
  __shared__ float slot;
  size_t row = blockIdx.x;
  const float* x = inp + row * hidden_dim;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < hidden_dim; c += THREADS) sum += x[c];
  float mean = block_sum(sum, &slot) / hidden_dim;
  float squares = 0.0f;
  for (int c = threadIdx.x; c < hidden_dim; c += THREADS) {
    float d = x[c] - mean;
    squares += d * d;
  }
  float var = block_sum(squares, &slot) / hidden_dim;
  float rstd = rsqrtf(var + LN_EPSILON);
  for (int c = threadIdx.x; c < hidden_dim; c += THREADS) {
    ln_res[row * hidden_dim + c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
  }
  if (threadIdx.x == 0) {
    means[row] = mean;
    vars[row] = var;
  }
}

__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  int c = blockIdx.y * THREADS + threadIdx.x;
  if (c >= hidden_dim) return;
  size_t first = (size_t)blockIdx.x * TILE_ROWS;
  float dgamma = 0.0f;
  float dbetta = 0.0f;
  for (size_t row = first; row < first + TILE_ROWS && row < (size_t)rows; ++row) {
    float dy = out_grad[row * hidden_dim + c];
    dgamma += dy * (inp[row * hidden_dim + c] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
    dbetta += dy;
  }
  atomicAdd(gamma_grad + c, dgamma);
  atomicAdd(betta_grad + c, dbetta);
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
  __shared__ float slot;
  size_t row = blockIdx.x;
  const float* x = inp + row * hidden_dim;
  const float* dy = out_grad + row * hidden_dim;
  float mean = means[row];
  float rstd = rsqrtf(vars[row] + LN_EPSILON);
  float sum1 = 0.0f;
  float sum2 = 0.0f;
  for (int c = threadIdx.x; c < hidden_dim; c += THREADS) {
    float dxhat = dy[c] * gamma[c];
    sum1 += dxhat;
    sum2 += dxhat * (x[c] - mean) * rstd;
  }
  float mean1 = block_sum(sum1, &slot) / hidden_dim;
  float mean2 = block_sum(sum2, &slot) / hidden_dim;
  for (int c = threadIdx.x; c < hidden_dim; c += THREADS) {
    float xhat = (x[c] - mean) * rstd;
    inp_grad[row * hidden_dim + c] = (dy[c] * gamma[c] - mean1 - xhat * mean2) * rstd;
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
  dim3 grid((rows + TILE_ROWS - 1) / TILE_ROWS, (hidden_dim + THREADS - 1) / THREADS);
  ker_ln_bw_dgamma_dbetta<<<grid, THREADS, 0, stream>>>(gamma_grad, beta_grad, out_grad, inp, vars,
                                                        means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<rows, THREADS, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars, means,
                                               hidden_dim);
}
