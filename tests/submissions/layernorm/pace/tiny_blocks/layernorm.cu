#include <cuda_runtime.h>

__device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
  const float* x = inp + (size_t)blockIdx.x * hidden_dim;
  float* y = ln_res + (size_t)blockIdx.x * hidden_dim;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += 32) sum += x[i];
  float mean = warp_sum(sum) / hidden_dim;
  float sq = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += 32) sq += (x[i] - mean) * (x[i] - mean);
  float var = warp_sum(sq) / hidden_dim;
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    vars[blockIdx.x] = var;
  }
  float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = threadIdx.x; i < hidden_dim; i += 32) {
    y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
  }
}

// A warp for 32 columns and every gridDim.y-th row.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  int col = blockIdx.x * 32 + threadIdx.x;
  if (col >= hidden_dim) return;
  float dgamma = 0.0f;
  float dbetta = 0.0f;
  for (int row = blockIdx.y; row < rows; row += gridDim.y) {
    size_t i = (size_t)row * hidden_dim + col;
    dgamma += out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
    dbetta += out_grad[i];
  }
  atomicAdd(gamma_grad + col, dgamma);
  atomicAdd(betta_grad + col, dbetta);
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
  size_t offset = (size_t)blockIdx.x * hidden_dim;
  const float* dy = out_grad + offset;
  const float* x = inp + offset;
  float mean = means[blockIdx.x];
  float rstd = rsqrtf(vars[blockIdx.x] + LN_EPSILON);
  float sum1 = 0.0f;
  float sum2 = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += 32) {
    float dxhat = dy[i] * gamma[i];
    sum1 += dxhat;
    sum2 += dxhat * ((x[i] - mean) * rstd);
  }
  sum1 = warp_sum(sum1) / hidden_dim;
  sum2 = warp_sum(sum2) / hidden_dim;
  for (int i = threadIdx.x; i < hidden_dim; i += 32) {
    float xhat = (x[i] - mean) * rstd;
    inp_grad[offset + i] = (dy[i] * gamma[i] - sum1 - xhat * sum2) * rstd;
  }
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  ker_layer_norm<<<rows, 32, 0, stream>>>(ln_res, vars, means, inp, gamma, beta, hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  cudaMemsetAsync(gamma_grad, 0, hidden_dim * sizeof(float), stream);
  cudaMemsetAsync(beta_grad, 0, hidden_dim * sizeof(float), stream);
  int slices = (rows + 7) / 8;
  dim3 grid((hidden_dim + 31) / 32, slices < 512 ? slices : 512);
  ker_ln_bw_dgamma_dbetta<<<grid, 32, 0, stream>>>(gamma_grad, beta_grad, out_grad, inp, vars,
                                                   means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<rows, 32, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars, means, hidden_dim);
}
