#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

template <int THREADS>
__device__ float block_sum(float v) {
  __shared__ float part[THREADS / 32];
  __shared__ float total;
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float t = 0.f;
#pragma unroll
    for (int w = 0; w < THREADS / 32; ++w) t += part[w];
    total = t;
  }
  __syncthreads();
  const float result = total;
  __syncthreads();
  return result;
}

template <int THREADS, bool VECTOR>
__global__ void __launch_bounds__(THREADS)
    ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp, const float* gamma,
                   const float* beta, int n) {
  const size_t base = (size_t)blockIdx.x * n;
  float s = 0.f;
  if constexpr (VECTOR) {
    const float4* x4 = reinterpret_cast<const float4*>(inp + base);
    for (int i = threadIdx.x; i < n / 4; i += THREADS) {
      const float4 v = x4[i];
      s += (v.x + v.y) + (v.z + v.w);
    }
  } else {
    for (int i = threadIdx.x; i < n; i += THREADS) s += inp[base + i];
  }
  const float mean = block_sum<THREADS>(s) / n;
  float q = 0.f;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const float d = inp[base + i] - mean;
    q += d * d;
  }
  const float var = block_sum<THREADS>(q) / n;
  const float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = threadIdx.x; i < n; i += THREADS) {
    ln_res[base + i] = (inp[base + i] - mean) * rstd * gamma[i] + beta[i];
  }
  if (threadIdx.x == 0) {
    means[blockIdx.x] = mean;
    vars[blockIdx.x] = var;
  }
}

template <int THREADS>
__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means, int n) {
  const size_t base = (size_t)blockIdx.x * n;
  const float mean = means[blockIdx.x];
  const float rstd = rsqrtf(vars[blockIdx.x] + LN_EPSILON);
  float s1 = 0.f, s2 = 0.f;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const float d = out_grad[base + i] * gamma[i];
    s1 += d;
    s2 += d * (inp[base + i] - mean) * rstd;
  }
  s1 = block_sum<THREADS>(s1) / n;
  s2 = block_sum<THREADS>(s2) / n;
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const float d = out_grad[base + i] * gamma[i];
    inp_grad[base + i] = (d - s1 - (inp[base + i] - mean) * rstd * s2) * rstd;
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

using Forward = void (*)(float*, float*, float*, const float*, const float*, const float*, int);
using Dinp = void (*)(float*, const float*, const float*, const float*, const float*, const float*,
                      int);

// [block of 64, 256, 1024 threads][float4]
static const Forward forward_kernels[3][2] = {
    {ker_layer_norm<64, false>, ker_layer_norm<64, true>},
    {ker_layer_norm<256, false>, ker_layer_norm<256, true>},
    {ker_layer_norm<1024, false>, ker_layer_norm<1024, true>},
};
static const Dinp dinp_kernels[3] = {ker_ln_bw_dinp<64>, ker_ln_bw_dinp<256>, ker_ln_bw_dinp<1024>};
static const int sizes[3] = {64, 256, 1024};

static int pick(int n) { return n <= 128 ? 0 : n <= 1024 ? 1 : 2; }

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  const int k = pick(hidden_dim);
  const Forward kernel = forward_kernels[k][hidden_dim % 4 == 0];
  kernel<<<rows, sizes[k], 0, stream>>>(ln_res, vars, means, inp, gamma, beta, hidden_dim);
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
  const int k = pick(hidden_dim);
  dinp_kernels[k]<<<rows, sizes[k], 0, stream>>>(inp_grad, out_grad, inp, gamma, vars, means,
                                                 hidden_dim);
}
