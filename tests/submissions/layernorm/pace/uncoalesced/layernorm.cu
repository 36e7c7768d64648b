#include <cuda_runtime.h>

#define THREADS 256

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

// Thread t takes the columns [begin, end): its neighbour begins where it ends.
__device__ int begin_of(int thread, int hidden_dim) {
  int piece = (hidden_dim + THREADS - 1) / THREADS;
  int begin = thread * piece;
  return begin < hidden_dim ? begin : hidden_dim;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
  const float* x = inp + (size_t)blockIdx.x * hidden_dim;
  float* y = ln_res + (size_t)blockIdx.x * hidden_dim;
  int begin = begin_of(threadIdx.x, hidden_dim);
  int end = begin_of(threadIdx.x + 1, hidden_dim);

  float sum = 0.0f;
  for (int i = begin; i < end; i++) sum += x[i];
  float mean = block_sum(sum) / hidden_dim;

  float sq = 0.0f;
  for (int i = begin; i < end; i++) sq += (x[i] - mean) * (x[i] - mean);
  float var = block_sum(sq) / hidden_dim;

  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    vars[blockIdx.x] = var;
  }
  float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = begin; i < end; i++) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
}

#define COLUMN_THREADS 128

// One thread per column; neighbouring threads are gridDim.x columns apart.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  int col = threadIdx.x * gridDim.x + blockIdx.x;
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
  float* dx = inp_grad + offset;
  float mean = means[blockIdx.x];
  float rstd = rsqrtf(vars[blockIdx.x] + LN_EPSILON);
  int begin = begin_of(threadIdx.x, hidden_dim);
  int end = begin_of(threadIdx.x + 1, hidden_dim);

  float sum1 = 0.0f;
  float sum2 = 0.0f;
  for (int i = begin; i < end; i++) {
    float dxhat = dy[i] * gamma[i];
    sum1 += dxhat;
    sum2 += dxhat * ((x[i] - mean) * rstd);
  }
  sum1 = block_sum(sum1) / hidden_dim;
  sum2 = block_sum(sum2) / hidden_dim;
  for (int i = begin; i < end; i++) {
    float xhat = (x[i] - mean) * rstd;
    dx[i] = (dy[i] * gamma[i] - sum1 - xhat * sum2) * rstd;
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
  int slices = rows < 64 ? rows : 64;
  dim3 grid((hidden_dim + COLUMN_THREADS - 1) / COLUMN_THREADS, slices);
  ker_ln_bw_dgamma_dbetta<<<grid, COLUMN_THREADS, 0, stream>>>(gamma_grad, beta_grad, out_grad, inp,
                                                               vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<rows, THREADS, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars, means,
                                               hidden_dim);
}
