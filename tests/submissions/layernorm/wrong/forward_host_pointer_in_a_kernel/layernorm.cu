#include <cuda_runtime.h>

// sum over the whole block, every thread gets it
__device__ float block_sum(float v) {
  __shared__ float warps[32];
  int lane = threadIdx.x % 32;
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
  if (lane == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = lane < blockDim.x / 32 ? warps[lane] : 0.0f;
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
  __syncthreads();  // warps is used again by the next call
  return v;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, const float* settings,
                               int hidden_dim) {
  size_t row = (size_t)blockIdx.x * hidden_dim;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) sum += inp[row + i];
  float mean = block_sum(sum) / hidden_dim;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    squares += (inp[row + i] - mean) * (inp[row + i] - mean);
  }
  float var = block_sum(squares) / hidden_dim;
  float rstd = rsqrtf(var + settings[0]);
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    ln_res[row + i] = (inp[row + i] - mean) * rstd * gamma[i] + beta[i];
  }
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    vars[blockIdx.x] = var;
  }
}

__global__ void ker_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                       const float* inp, const float* vars, const float* means,
                                       int rows, int hidden_dim) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col >= hidden_dim) return;
  float dgamma = 0.0f, dbeta = 0.0f;
  for (int row = 0; row < rows; row++) {
    size_t i = (size_t)row * hidden_dim + col;
    dgamma += out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
    dbeta += out_grad[i];
  }
  gamma_grad[col] = dgamma;
  beta_grad[col] = dbeta;
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
  size_t row = (size_t)blockIdx.x * hidden_dim;
  float mean = means[blockIdx.x];
  float rstd = rsqrtf(vars[blockIdx.x] + LN_EPSILON);
  float s1 = 0.0f, s2 = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    float dxhat = out_grad[row + i] * gamma[i];
    s1 += dxhat;
    s2 += dxhat * (inp[row + i] - mean) * rstd;
  }
  s1 = block_sum(s1) / hidden_dim;
  s2 = block_sum(s2) / hidden_dim;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    float xhat = (inp[row + i] - mean) * rstd;
    inp_grad[row + i] = (out_grad[row + i] * gamma[i] - s1 - xhat * s2) * rstd;
  }
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  const float settings[1] = {LN_EPSILON};
  ker_layer_norm<<<rows, 128, 0, stream>>>(ln_res, vars, means, inp, gamma, beta, settings,
                                           hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dgamma_dbeta<<<(hidden_dim + 63) / 64, 64, 0, stream>>>(
      gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<rows, 128, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars, means, hidden_dim);
}
