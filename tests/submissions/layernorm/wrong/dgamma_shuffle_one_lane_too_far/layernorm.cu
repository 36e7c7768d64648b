#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

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

// the row is read once and kept in shared memory
__global__ void ker_layer_norm_cached(float* ln_res, float* vars, float* means, const float* inp,
                                      const float* gamma, const float* beta, int hidden_dim) {
  extern __shared__ float row[];
  size_t offset = (size_t)blockIdx.x * hidden_dim;

  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    row[i] = inp[offset + i];
    sum += row[i];
  }
  float mean = blockReduceSum(sum) / hidden_dim;

  float sq = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    row[i] -= mean;
    sq += row[i] * row[i];
  }
  float var = blockReduceSum(sq) / hidden_dim;

  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    vars[blockIdx.x] = var;
  }
  float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    ln_res[offset + i] = row[i] * rstd * gamma[i] + beta[i];
  }
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

#define TILE_DIM 32

__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* betta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  __shared__ float betta_buffer[TILE_DIM][TILE_DIM + 1];
  __shared__ float gamma_buffer[TILE_DIM][TILE_DIM + 1];

  cg::thread_block b = cg::this_thread_block();
  cg::thread_block_tile<TILE_DIM> g = cg::tiled_partition<TILE_DIM>(b);

  // Step 1: partial sums over the rows
  int col = blockIdx.x * TILE_DIM + threadIdx.x;
  float dbetta = 0.0f;
  float dgamma = 0.0f;
  if (col < hidden_dim) {
    for (int row = threadIdx.y; row < rows; row += TILE_DIM) {
      size_t idx = (size_t)row * hidden_dim + col;
      float xhat = (inp[idx] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
      dbetta += out_grad[idx];
      dgamma += out_grad[idx] * xhat;
    }
  }

  // Step 2: store them in shared memory
  betta_buffer[threadIdx.y][threadIdx.x] = dbetta;
  gamma_buffer[threadIdx.y][threadIdx.x] = dgamma;
  __syncthreads();

  // Step 3: each warp reduces one column
  dbetta = betta_buffer[threadIdx.x][threadIdx.y];
  dgamma = gamma_buffer[threadIdx.x][threadIdx.y];
  for (int i = TILE_DIM / 2; i > 0; i /= 2) {
    dbetta += g.shfl_down(dbetta, (i) + 1);
    dgamma += g.shfl_down(dgamma, i);
  }

  // Step 4: write
  int out = blockIdx.x * TILE_DIM + threadIdx.y;
  if (threadIdx.x == 0 && out < hidden_dim) {
    betta_grad[out] = dbetta;
    gamma_grad[out] = dgamma;
  }
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
  size_t bytes = hidden_dim * sizeof(float);
  if (bytes > 48 * 1024) {
    // more than 48 KB has to be asked for, and may not be there
    cudaError_t error = cudaFuncSetAttribute(
        ker_layer_norm_cached, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess) {
      cudaGetLastError();
      bytes = 0;
    }
  }
  if (bytes > 0) {
    ker_layer_norm_cached<<<rows, block_size(hidden_dim), bytes, stream>>>(ln_res, vars, means, inp,
                                                                           gamma, beta, hidden_dim);
    return;
  }
  ker_layer_norm<<<rows, block_size(hidden_dim), 0, stream>>>(ln_res, vars, means, inp, gamma, beta,
                                                              hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  dim3 grid((hidden_dim + TILE_DIM - 1) / TILE_DIM);
  dim3 block(TILE_DIM, TILE_DIM);
  ker_ln_bw_dgamma_dbetta<<<grid, block, 0, stream>>>(gamma_grad, beta_grad, out_grad, inp, vars,
                                                      means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<rows, block_size(hidden_dim), 0, stream>>>(inp_grad, out_grad, inp, gamma, vars,
                                                              means, hidden_dim);
}
