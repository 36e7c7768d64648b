#include <cuda_runtime.h>

// no communication between threads at all: a row (or a column) is one thread's work

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int rows, int hidden_dim) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const float* x = inp + (size_t)r * hidden_dim;
  float* y = ln_res + (size_t)r * hidden_dim;
  float mean = 0.0f;
  for (int c = 0; c < hidden_dim; c++) mean += x[c];
  mean /= hidden_dim;
  float var = 0.0f;
  for (int c = 0; c < hidden_dim; c++) var += (x[c] - mean) * (x[c] - mean);
  var /= hidden_dim;
  float std = sqrtf(var + LN_EPSILON);
  for (int c = 0; c < hidden_dim; c++) y[c] = (x[c] - mean) / std * gamma[c] + beta[c];
  means[r] = mean;
  vars[r] = var;
}

__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= hidden_dim) return;
  float dg = 0.0f, db = 0.0f;
  for (int r = 0; r < rows; r++) {
    size_t i = (size_t)r * hidden_dim + c;
    dg += out_grad[i] * (inp[i] - means[r]) / sqrtf(vars[r] + LN_EPSILON);
    db += out_grad[i];
  }
  gamma_grad[c] = dg;
  beta_grad[c] = db;
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means, int rows,
                               int hidden_dim) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  size_t row = (size_t)r * hidden_dim;
  float mean = means[r];
  float std = sqrtf(vars[r] + LN_EPSILON);
  float s1 = 0.0f, s2 = 0.0f;
  for (int c = 0; c < hidden_dim; c++) {
    float d = out_grad[row + c] * gamma[c];
    s1 += d;
    s2 += d * (inp[row + c] - mean) / std;
  }
  for (int c = 0; c < hidden_dim; c++) {
    float d = out_grad[row + c] * gamma[c];
    float xhat = (inp[row + c] - mean) / std;
    inp_grad[row + c] = (hidden_dim * d - s1 - xhat * s2) / hidden_dim / std;
  }
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  ker_layer_norm<<<(rows + 127) / 128, 128, 0, stream>>>(ln_res, vars, means, inp, gamma, beta,
                                                         rows, hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dgamma_dbetta<<<(hidden_dim + 63) / 64, 64, 0, stream>>>(
      gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<(rows + 127) / 128, 128, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars,
                                                         means, rows, hidden_dim);
}
