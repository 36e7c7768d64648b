#include <cuda_runtime.h>

// blocks of 4 x 8 x 3 = 96 threads, rows folded into a grid of two dimensions

__device__ int tid() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }

__device__ int threads() { return blockDim.x * blockDim.y * blockDim.z; }

__device__ size_t row_index() { return blockIdx.x + (size_t)gridDim.x * blockIdx.z; }

__device__ float block_sum(float v) {
  __shared__ float part[96];
  part[tid()] = v;
  __syncthreads();
  if (tid() < 32) part[tid()] += part[tid() + 32] + part[tid() + 64];
  __syncthreads();
  for (int s = 16; s > 0; s /= 2) {
    if (tid() < s) part[tid()] += part[tid() + s];
    __syncthreads();
  }
  v = part[0];
  __syncthreads();
  return v;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int rows, int n) {
  const size_t row = row_index();
  if (row >= rows) return;
  const float* x = inp + row * n;
  float s = 0.0f;
  for (int i = tid(); i < n; i += threads()) s += x[i];
  const float mean = block_sum(s) / n;
  s = 0.0f;
  for (int i = tid(); i < n; i += threads()) s += (x[i] - mean) * (x[i] - mean);
  const float var = block_sum(s) / n;
  for (int i = tid(); i < n; i += threads()) {
    ln_res[row * n + i] = (x[i] - mean) * rsqrtf(var + LN_EPSILON) * gamma[i] + beta[i];
  }
  if (tid() == 95) {
    means[row] = mean;
    vars[row] = var;
  }
}

__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int n) {
  for (int c = blockIdx.x; c < n; c += gridDim.x) {
    float dg = 0.0f;
    float db = 0.0f;
    for (int r = tid(); r < rows; r += threads()) {
      const size_t i = (size_t)r * n + c;
      dg += out_grad[i] * (inp[i] - means[r]) * rsqrtf(vars[r] + LN_EPSILON);
      db += out_grad[i];
    }
    dg = block_sum(dg);
    db = block_sum(db);
    if (tid() == 0) {
      gamma_grad[c] = dg;
      beta_grad[c] = db;
    }
  }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means, int rows,
                               int n) {
  const size_t row = row_index();
  if (row >= rows) return;
  const float* x = inp + row * n;
  const float* dy = out_grad + row * n;
  const float mean = means[row];
  const float rstd = rsqrtf(vars[row] + LN_EPSILON);
  float s1 = 0.0f;
  float s2 = 0.0f;
  for (int i = tid(); i < n; i += threads()) {
    s1 += dy[i] * gamma[i];
    s2 += dy[i] * gamma[i] * (x[i] - mean) * rstd;
  }
  s1 = block_sum(s1) / n;
  s2 = block_sum(s2) / n;
  for (int i = tid(); i < n; i += threads()) {
    inp_grad[row * n + i] = (dy[i] * gamma[i] - s1 - (x[i] - mean) * rstd * s2) * rstd;
  }
}

static dim3 grid_of(int rows) { return dim3(128, 1, (rows + 127) / 128); }

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  ker_layer_norm<<<grid_of(rows), dim3(4, 8, 3), 0, stream>>>(ln_res, vars, means, inp, gamma, beta,
                                                              rows, hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dgamma_dbetta<<<64, dim3(4, 8, 3), 0, stream>>>(gamma_grad, beta_grad, out_grad, inp,
                                                            vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<grid_of(rows), dim3(4, 8, 3), 0, stream>>>(inp_grad, out_grad, inp, gamma, vars,
                                                              means, rows, hidden_dim);
}
