#include <cuda_runtime.h>

#define THREADS 128
#define BYTES (100 * 1024)  // of shared memory: the beginning of a row, the rest is read again
#define KEPT (BYTES / 4)    // floats

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
                               const float* gamma, const float* beta, int hidden_dim) {
  extern __shared__ float kept[];
  const float* x = inp + (size_t)blockIdx.x * hidden_dim;
  float* y = ln_res + (size_t)blockIdx.x * hidden_dim;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    float v = x[i];
    if (i < KEPT) kept[i] = v;
    sum += v;
  }
  float mean = block_sum(sum) / hidden_dim;

  float sq = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    float d = (i < KEPT ? kept[i] : x[i]) - mean;
    sq += d * d;
  }
  float var = block_sum(sq) / hidden_dim;

  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    vars[blockIdx.x] = var;
  }
  float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    float v = i < KEPT ? kept[i] : x[i];
    y[i] = (v - mean) * rstd * gamma[i] + beta[i];
  }
}

// 32 columns and a slice of the rows for each block of 32 x 4 threads.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  extern __shared__ float sums[];
  int lane = threadIdx.x % 32;
  int warp = threadIdx.x / 32;
  int col = blockIdx.x * 32 + lane;
  float dgamma = 0.0f;
  float dbetta = 0.0f;
  if (col < hidden_dim) {
    for (int row = blockIdx.y * 4 + warp; row < rows; row += 4 * gridDim.y) {
      size_t i = (size_t)row * hidden_dim + col;
      dgamma += out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
      dbetta += out_grad[i];
    }
  }
  sums[threadIdx.x] = dgamma;
  sums[THREADS + threadIdx.x] = dbetta;
  __syncthreads();
  if (warp == 0 && col < hidden_dim) {
    for (int i = 1; i < 4; i++) {
      dgamma += sums[32 * i + lane];
      dbetta += sums[THREADS + 32 * i + lane];
    }
    atomicAdd(gamma_grad + col, dgamma);
    atomicAdd(betta_grad + col, dbetta);
  }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
  extern __shared__ float kept[];  // dxhat
  size_t offset = (size_t)blockIdx.x * hidden_dim;
  const float* dy = out_grad + offset;
  const float* x = inp + offset;
  float mean = means[blockIdx.x];
  float rstd = rsqrtf(vars[blockIdx.x] + LN_EPSILON);

  float sum1 = 0.0f;
  float sum2 = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    float dxhat = dy[i] * gamma[i];
    if (i < KEPT) kept[i] = dxhat;
    sum1 += dxhat;
    sum2 += dxhat * ((x[i] - mean) * rstd);
  }
  sum1 = block_sum(sum1) / hidden_dim;
  sum2 = block_sum(sum2) / hidden_dim;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    float dxhat = i < KEPT ? kept[i] : dy[i] * gamma[i];
    float xhat = (x[i] - mean) * rstd;
    inp_grad[offset + i] = (dxhat - sum1 - xhat * sum2) * rstd;
  }
}

// more than 48 KB has to be asked for
template <typename Kernel>
static void allow(Kernel kernel) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  allow(ker_layer_norm);
  ker_layer_norm<<<rows, THREADS, BYTES, stream>>>(ln_res, vars, means, inp, gamma, beta,
                                                   hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  cudaMemsetAsync(gamma_grad, 0, hidden_dim * sizeof(float), stream);
  cudaMemsetAsync(beta_grad, 0, hidden_dim * sizeof(float), stream);
  allow(ker_ln_bw_dgamma_dbetta);
  int slices = (rows + 63) / 64;
  dim3 grid((hidden_dim + 31) / 32, slices < 32 ? slices : 32);
  ker_ln_bw_dgamma_dbetta<<<grid, THREADS, BYTES, stream>>>(gamma_grad, beta_grad, out_grad, inp,
                                                            vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  allow(ker_ln_bw_dinp);
  ker_ln_bw_dinp<<<rows, THREADS, BYTES, stream>>>(inp_grad, out_grad, inp, gamma, vars, means,
                                                   hidden_dim);
}
