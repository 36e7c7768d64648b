#include <cuda_runtime.h>

__device__ float warpReduceSum(float val) {
  for (int offset = 16; offset > 0; offset /= 2) {
    val += __shfl_down_sync(0xffffffff, val, offset);
  }
  return val;
}

// sum over the whole block, every thread gets it
__device__ float blockReduceSum(float val) {
  __shared__ float shared[33];
  int lane = threadIdx.x % 32;
  int warp = threadIdx.x / 32;
  val = warpReduceSum(val);
  if (lane == 0) shared[warp] = val;
  __syncthreads();
  if (warp == 0) {
    val = lane < (blockDim.x + 31) / 32 ? shared[lane] : 0.0f;
    val = warpReduceSum(val);
    if (lane == 0) shared[32] = val;
  }
  __syncthreads();
  val = shared[32];
  __syncthreads();  // shared is used again by the next call
  return val;
}

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

#define SLICES 16

__device__ unsigned int blocks_done;  // starts at 0, and the last block sets it back

// Each block adds up a slice of the rows; the block that finishes last adds up the slices.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, float* scratch,
                                        const float* out_grad, const float* inp, const float* vars,
                                        const float* means, int rows, int hidden_dim) {
  float* mine = scratch + (size_t)blockIdx.x * 2 * hidden_dim;
  for (int col = threadIdx.x; col < hidden_dim; col += blockDim.x) {
    float dgamma = 0.0f;
    float dbetta = 0.0f;
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
      size_t idx = (size_t)row * hidden_dim + col;
      dgamma += out_grad[idx] * (inp[idx] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
      dbetta += out_grad[idx];
    }
    mine[col] = dgamma;
    mine[hidden_dim + col] = dbetta;
  }
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&blocks_done, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (false) return;
  __threadfence();
  for (int col = threadIdx.x; col < hidden_dim; col += blockDim.x) {
    float dgamma = 0.0f;
    float dbetta = 0.0f;
    for (int slice = 0; slice < gridDim.x; slice++) {
      const volatile float* part = scratch + (size_t)slice * 2 * hidden_dim;
      dgamma += part[col];
      dbetta += part[hidden_dim + col];
    }
    gamma_grad[col] = dgamma;
    betta_grad[col] = dbetta;
  }
  if (threadIdx.x == 0) blocks_done = 0;
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

static int block_size(int n) {
  int threads = (n + 31) / 32 * 32;
  return threads > 1024 ? 1024 : threads;
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  ker_layer_norm<<<rows, block_size(hidden_dim), 0, stream>>>(ln_res, vars, means, inp, gamma, beta,
                                                              hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  float* scratch;
  cudaMallocAsync(&scratch, (size_t)SLICES * 2 * hidden_dim * sizeof(float), stream);
  ker_ln_bw_dgamma_dbetta<<<SLICES, block_size(hidden_dim), 0, stream>>>(
      gamma_grad, beta_grad, scratch, out_grad, inp, vars, means, rows, hidden_dim);
  cudaFreeAsync(scratch, stream);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<rows, block_size(hidden_dim), 0, stream>>>(inp_grad, out_grad, inp, gamma, vars,
                                                              means, hidden_dim);
}
