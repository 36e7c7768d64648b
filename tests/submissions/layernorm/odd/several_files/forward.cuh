#pragma once
#include "reduce.cuh"

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
  size_t offset = (size_t)blockIdx.x * hidden_dim;
  const float* x = inp + offset;
  float* y = ln_res + offset;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    sum += x[i];
  }
  float mean = blockReduceSum(sum) / hidden_dim;

  float sq = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    float d = x[i] - mean;
    sq += d * d;
  }
  float var = blockReduceSum(sq) / hidden_dim;

  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    vars[blockIdx.x] = var;
  }
  float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
  }
}
