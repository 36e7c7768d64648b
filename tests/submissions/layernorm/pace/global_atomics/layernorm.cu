#include <cuda_runtime.h>

#define THREADS 256

__device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
  return v;
}

// Blocks of one row each, as many next to each other as its columns need: threads without a column
// take part in the shuffles with zeros.
__device__ int column() { return blockIdx.y * THREADS + threadIdx.x; }

__global__ void ker_row_sums(float* sums, const float* inp, int hidden_dim) {
  size_t row = blockIdx.x;
  int c = column();
  float v = warp_sum(c < hidden_dim ? inp[row * hidden_dim + c] : 0.0f);
  if (threadIdx.x % 32 == 0) atomicAdd(sums + row, v);
}

__global__ void ker_row_squares(float* squares, const float* sums, const float* inp,
                                int hidden_dim) {
  size_t row = blockIdx.x;
  int c = column();
  float d = c < hidden_dim ? inp[row * hidden_dim + c] - sums[row] / hidden_dim : 0.0f;
  d = warp_sum(d * d);
  if (threadIdx.x % 32 == 0) atomicAdd(squares + row, d);
}

__global__ void ker_normalise(float* ln_res, float* vars, float* means, const float* sums,
                              const float* squares, const float* inp, const float* gamma,
                              const float* beta, int hidden_dim) {
  size_t row = blockIdx.x;
  int c = column();
  float mean = sums[row] / hidden_dim;
  float var = squares[row] / hidden_dim;
  if (c == 0) {
    means[row] = mean;
    vars[row] = var;
  }
  if (c < hidden_dim) {
    size_t i = row * hidden_dim + c;
    ln_res[i] = (inp[i] - mean) * rsqrtf(var + LN_EPSILON) * gamma[c] + beta[c];
  }
}

__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int hidden_dim) {
  size_t row = blockIdx.x;
  int c = column();
  if (c >= hidden_dim) return;
  size_t i = row * hidden_dim + c;
  atomicAdd(gamma_grad + c, out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON));
  atomicAdd(betta_grad + c, out_grad[i]);
}

__global__ void ker_dinp_sums(float* sum1, float* sum2, const float* out_grad, const float* inp,
                              const float* gamma, const float* vars, const float* means,
                              int hidden_dim) {
  size_t row = blockIdx.x;
  int c = column();
  float dxhat = 0.0f;
  float xhat = 0.0f;
  if (c < hidden_dim) {
    size_t i = row * hidden_dim + c;
    dxhat = out_grad[i] * gamma[c];
    xhat = (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
  }
  float a = warp_sum(dxhat);
  float b = warp_sum(dxhat * xhat);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(sum1 + row, a);
    atomicAdd(sum2 + row, b);
  }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* sum1, const float* sum2,
                               const float* out_grad, const float* inp, const float* gamma,
                               const float* vars, const float* means, int hidden_dim) {
  size_t row = blockIdx.x;
  int c = column();
  if (c >= hidden_dim) return;
  size_t i = row * hidden_dim + c;
  float rstd = rsqrtf(vars[row] + LN_EPSILON);
  float xhat = (inp[i] - means[row]) * rstd;
  float mean1 = sum1[row] / hidden_dim;
  float mean2 = sum2[row] / hidden_dim;
  inp_grad[i] = (out_grad[i] * gamma[c] - mean1 - xhat * mean2) * rstd;
}

static dim3 grid_of(int rows, int hidden_dim) {
  return dim3(rows, (hidden_dim + THREADS - 1) / THREADS);
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  dim3 grid = grid_of(rows, hidden_dim);
  float* sums;
  cudaMallocAsync(&sums, 2 * (size_t)rows * sizeof(float), stream);
  cudaMemsetAsync(sums, 0, 2 * (size_t)rows * sizeof(float), stream);
  float* squares = sums + rows;
  ker_row_sums<<<grid, THREADS, 0, stream>>>(sums, inp, hidden_dim);
  ker_row_squares<<<grid, THREADS, 0, stream>>>(squares, sums, inp, hidden_dim);
  ker_normalise<<<grid, THREADS, 0, stream>>>(ln_res, vars, means, sums, squares, inp, gamma, beta,
                                              hidden_dim);
  cudaFreeAsync(sums, stream);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  cudaMemsetAsync(gamma_grad, 0, hidden_dim * sizeof(float), stream);
  cudaMemsetAsync(beta_grad, 0, hidden_dim * sizeof(float), stream);
  ker_ln_bw_dgamma_dbetta<<<grid_of(rows, hidden_dim), THREADS, 0, stream>>>(
      gamma_grad, beta_grad, out_grad, inp, vars, means, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  dim3 grid = grid_of(rows, hidden_dim);
  float* sum1;
  cudaMallocAsync(&sum1, 2 * (size_t)rows * sizeof(float), stream);
  cudaMemsetAsync(sum1, 0, 2 * (size_t)rows * sizeof(float), stream);
  float* sum2 = sum1 + rows;
  ker_dinp_sums<<<grid, THREADS, 0, stream>>>(sum1, sum2, out_grad, inp, gamma, vars, means,
                                              hidden_dim);
  ker_ln_bw_dinp<<<grid, THREADS, 0, stream>>>(inp_grad, sum1, sum2, out_grad, inp, gamma, vars,
                                               means, hidden_dim);
  cudaFreeAsync(sum1, stream);
}
