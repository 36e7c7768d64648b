#include <cuda_runtime.h>

#define THREADS 256
#define ROWS_AT_A_TIME 64

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
                               const float* gamma, const float* beta, int first, int hidden_dim) {
  size_t row = first + blockIdx.x;
  const float* x = inp + row * hidden_dim;
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
    ln_res[row * hidden_dim + i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
  }
}

// Adds up the rows [first, last), on top of those before.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int first, int last, int hidden_dim) {
  int col = blockIdx.x * 64 + threadIdx.x;
  if (col >= hidden_dim) return;
  float dgamma = 0.0f;
  float dbetta = 0.0f;
  for (int row = first; row < last; row++) {
    size_t i = (size_t)row * hidden_dim + col;
    dgamma += out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
    dbetta += out_grad[i];
  }
  gamma_grad[col] = first == 0 ? dgamma : gamma_grad[col] + dgamma;
  betta_grad[col] = first == 0 ? dbetta : betta_grad[col] + dbetta;
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means, int first,
                               int hidden_dim) {
  size_t row = first + blockIdx.x;
  const float* dy = out_grad + row * hidden_dim;
  const float* x = inp + row * hidden_dim;
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
    inp_grad[row * hidden_dim + i] = (dy[i] * gamma[i] - sum1 - xhat * sum2) * rstd;
  }
}

static int end_of(int first, int rows) {
  return rows - first < ROWS_AT_A_TIME ? rows : first + ROWS_AT_A_TIME;
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  for (int first = 0; first < rows; first = end_of(first, rows)) {
    ker_layer_norm<<<end_of(first, rows) - first, THREADS, 0, stream>>>(
        ln_res, vars, means, inp, gamma, beta, first, hidden_dim);
  }
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  for (int first = 0; first < rows; first = end_of(first, rows)) {
    ker_ln_bw_dgamma_dbetta<<<(hidden_dim + 63) / 64, 64, 0, stream>>>(
        gamma_grad, beta_grad, out_grad, inp, vars, means, first, end_of(first, rows), hidden_dim);
  }
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  for (int first = 0; first < rows; first = end_of(first, rows)) {
    ker_ln_bw_dinp<<<end_of(first, rows) - first, THREADS, 0, stream>>>(
        inp_grad, out_grad, inp, gamma, vars, means, first, hidden_dim);
  }
}
