#pragma once
#include "../reduce.cuh"

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
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    float dxhat = dy[i] * gamma[i];
    float xhat = (x[i] - mean) * rstd;
    sum1 += dxhat;
    sum2 += dxhat * xhat;
  }
  sum1 = blockReduceSum(sum1);
  sum2 = blockReduceSum(sum2);

  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    float dxhat = dy[i] * gamma[i];
    float xhat = (x[i] - mean) * rstd;
    dx[i] = (dxhat - sum1 / hidden_dim - xhat * (sum2 / hidden_dim)) * rstd;
  }
}
