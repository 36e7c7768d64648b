#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

template <int K>
__device__ void blockReduce(float (&v)[K]) {
  __shared__ float buf[K][32];
  const int lane = threadIdx.x & 31;
  const int wid = threadIdx.x >> 5;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    for (int mask = 16; mask > 0; mask >>= 1) v[k] += __shfl_xor_sync(0xffffffff, v[k], mask);
    if (lane == 0) buf[k][wid] = v[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < K; ++k) {
    v[k] = (lane < blockDim.x / 32) ? buf[k][lane] : 0.f;
    for (int mask = 16; mask > 0; mask >>= 1) v[k] += __shfl_xor_sync(0xffffffff, v[k], mask);
  }
  __syncthreads();
}

__global__ void ker_layer_norm_vec4(float* ln_res, float* vars, float* means, const float* inp,
                                    const float* gamma, const float* beta, int n4) {
  const size_t row = blockIdx.x;
  const float4* x = reinterpret_cast<const float4*>(inp) + row * n4;
  const float4* g4 = reinterpret_cast<const float4*>(gamma);
  const float4* b4 = reinterpret_cast<const float4*>(beta);
  float4* y = reinterpret_cast<float4*>(ln_res) + row * n4;
  const float inv_n = 1.f / (4.f * n4);

  float s[1] = {0.f};
  if (threadIdx.x < n4) {
    const int i = threadIdx.x;
    const float4 v = x[i];
    s[0] += v.x + v.y + v.z + v.w;
  }
  blockReduce<1>(s);
  const float mu = s[0] * inv_n;

  float q[1] = {0.f};
  if (threadIdx.x < n4) {
    const int i = threadIdx.x;
    const float4 v = x[i];
    q[0] += (v.x - mu) * (v.x - mu) + (v.y - mu) * (v.y - mu) + (v.z - mu) * (v.z - mu) +
            (v.w - mu) * (v.w - mu);
  }
  blockReduce<1>(q);
  const float var = q[0] * inv_n;
  const float rstd = 1.f / sqrtf(var + LN_EPSILON);

  if (threadIdx.x < n4) {
    const int i = threadIdx.x;
    float4 v = x[i];
    const float4 g = g4[i], b = b4[i];
    v.x = (v.x - mu) * rstd * g.x + b.x;
    v.y = (v.y - mu) * rstd * g.y + b.y;
    v.z = (v.z - mu) * rstd * g.z + b.z;
    v.w = (v.w - mu) * rstd * g.w + b.w;
    y[i] = v;
  }
  if (threadIdx.x == 0) {
    means[row] = mu;
    vars[row] = var;
  }
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int n) {
  const size_t row = blockIdx.x;
  const float* x = inp + row * n;
  float s[1] = {0.f};
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[0] += x[i];
  blockReduce<1>(s);
  const float mu = s[0] / n;
  float q[1] = {0.f};
  for (int i = threadIdx.x; i < n; i += blockDim.x) q[0] += (x[i] - mu) * (x[i] - mu);
  blockReduce<1>(q);
  const float var = q[0] / n;
  const float rstd = 1.f / sqrtf(var + LN_EPSILON);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    ln_res[row * n + i] = (x[i] - mu) * rstd * gamma[i] + beta[i];
  }
  if (threadIdx.x == 0) {
    means[row] = mu;
    vars[row] = var;
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

__global__ void ker_ln_bw_dinp_vec4(float* inp_grad, const float* out_grad, const float* inp,
                                    const float* gamma, const float* vars, const float* means,
                                    int n4) {
  const size_t row = blockIdx.x;
  const float4* dy = reinterpret_cast<const float4*>(out_grad) + row * n4;
  const float4* x = reinterpret_cast<const float4*>(inp) + row * n4;
  const float4* g4 = reinterpret_cast<const float4*>(gamma);
  float4* dx = reinterpret_cast<float4*>(inp_grad) + row * n4;
  const float mu = means[row];
  const float rstd = rsqrtf(vars[row] + LN_EPSILON);

  float s[2] = {0.f, 0.f};
  for (int i = threadIdx.x; i < n4; i += blockDim.x) {
    float4 d = dy[i];
    const float4 g = g4[i], v = x[i];
    d.x *= g.x;
    d.y *= g.y;
    d.z *= g.z;
    d.w *= g.w;
    s[0] += d.x + d.y + d.z + d.w;
    s[1] += (d.x * (v.x - mu) + d.y * (v.y - mu) + d.z * (v.z - mu) + d.w * (v.w - mu)) * rstd;
  }
  blockReduce<2>(s);
  const float m1 = s[0] / (4 * n4);
  const float m2 = s[1] / (4 * n4);

  for (int i = threadIdx.x; i < n4; i += blockDim.x) {
    const float4 d = dy[i], g = g4[i], v = x[i];
    float4 r;
    r.x = (d.x * g.x - m1 - (v.x - mu) * rstd * m2) * rstd;
    r.y = (d.y * g.y - m1 - (v.y - mu) * rstd * m2) * rstd;
    r.z = (d.z * g.z - m1 - (v.z - mu) * rstd * m2) * rstd;
    r.w = (d.w * g.w - m1 - (v.w - mu) * rstd * m2) * rstd;
    dx[i] = r;
  }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means, int n) {
  const size_t row = blockIdx.x;
  const float* dy = out_grad + row * n;
  const float* x = inp + row * n;
  const float mu = means[row];
  const float rstd = rsqrtf(vars[row] + LN_EPSILON);
  float s[2] = {0.f, 0.f};
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    s[0] += dy[i] * gamma[i];
    s[1] += dy[i] * gamma[i] * (x[i] - mu) * rstd;
  }
  blockReduce<2>(s);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float xhat = (x[i] - mu) * rstd;
    inp_grad[row * n + i] = (dy[i] * gamma[i] - s[0] / n - xhat * s[1] / n) * rstd;
  }
}

static int threads_for(int work) { return work >= 1024 ? 1024 : (work + 31) / 32 * 32; }

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  if (hidden_dim % 4 == 0 && hidden_dim <= 4096) {
    const int n4 = hidden_dim / 4;
    const int threads = rows >= 128 ? 64 : threads_for(n4);  // many small blocks for many rows
    ker_layer_norm_vec4<<<rows, threads, 0, stream>>>(ln_res, vars, means, inp, gamma, beta, n4);
  } else {
    ker_layer_norm<<<rows, threads_for(hidden_dim), 0, stream>>>(ln_res, vars, means, inp, gamma,
                                                                 beta, hidden_dim);
  }
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
  if (hidden_dim % 4 == 0) {
    const int n4 = hidden_dim / 4;
    ker_ln_bw_dinp_vec4<<<rows, threads_for(n4), 0, stream>>>(inp_grad, out_grad, inp, gamma, vars,
                                                              means, n4);
  } else {
    ker_ln_bw_dinp<<<rows, threads_for(hidden_dim), 0, stream>>>(inp_grad, out_grad, inp, gamma,
                                                                 vars, means, hidden_dim);
  }
}
