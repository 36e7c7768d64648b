#include <cuda_runtime.h>

constexpr unsigned FULL = 0xffffffffu;
constexpr int WARPS = 8;  // rows per block

__device__ inline float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(FULL, v, o);
  return v;
}

__global__ void ker_layer_norm(float* __restrict__ ln_res, float* __restrict__ vars,
                               float* __restrict__ means, const float* __restrict__ inp,
                               const float* __restrict__ gamma, const float* __restrict__ beta,
                               int rows, int n) {
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;  // whole warps leave together
  const float* x = inp + row * n;
  float s = 0.f;
  for (int i = lane; i < n; i += 32) s += __ldg(x + i);
  const float mean = warp_sum(s) / n;
  float q = 0.f;
  for (int i = lane; i < n; i += 32) {
    const float d = __ldg(x + i) - mean;
    q = fmaf(d, d, q);
  }
  const float var = warp_sum(q) / n;
  const float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = lane; i < n; i += 32) {
    ln_res[row * n + i] = fmaf((x[i] - mean) * rstd, gamma[i], beta[i]);
  }
  if (lane == 0) {
    means[row] = mean;
    vars[row] = var;
  }
}

// 32 columns per block, 8 warps share the rows
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int n) {
  __shared__ float dg_part[WARPS][32];
  __shared__ float db_part[WARPS][32];
  const int c = blockIdx.x * 32 + threadIdx.x;
  float dg = 0.f, db = 0.f;
  if (c < n) {
    for (long long r = threadIdx.y; r < rows; r += WARPS) {
      const float dy = out_grad[r * n + c];
      dg = fmaf(dy, (inp[r * n + c] - means[r]) * rsqrtf(vars[r] + LN_EPSILON), dg);
      db += dy;
    }
  }
  dg_part[threadIdx.y][threadIdx.x] = dg;
  db_part[threadIdx.y][threadIdx.x] = db;
  __syncthreads();
  if (threadIdx.y == 0 && c < n) {
    for (int w = 1; w < WARPS; ++w) {
      dg += dg_part[w][threadIdx.x];
      db += db_part[w][threadIdx.x];
    }
    gamma_grad[c] = dg;
    beta_grad[c] = db;
  }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means, int rows,
                               int n) {
  const int lane = threadIdx.x;
  const long long row = (long long)blockIdx.x * WARPS + threadIdx.y;
  if (row >= rows) return;
  const float* x = inp + row * n;
  const float* dy = out_grad + row * n;
  const float mean = means[row];
  const float rstd = rsqrtf(vars[row] + LN_EPSILON);
  float s1 = 0.f, s2 = 0.f;
  for (int i = lane; i < n; i += 32) {
    const float d = dy[i] * gamma[i];
    s1 += d;
    s2 += d * ((x[i] - mean) * rstd);
  }
  s1 = warp_sum(s1) / n;
  s2 = warp_sum(s2) / n;
  for (int i = lane; i < n; i += 32) {
    inp_grad[row * n + i] = rstd * (dy[i] * gamma[i] - s1 - (x[i] - mean) * rstd * s2);
  }
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  ker_layer_norm<<<(rows + WARPS - 1) / WARPS, dim3(32, WARPS), 0, stream>>>(
      ln_res, vars, means, inp, gamma, beta, hidden_dim, rows);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dgamma_dbetta<<<(hidden_dim + 31) / 32, dim3(32, WARPS), 0, stream>>>(
      gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<(rows + WARPS - 1) / WARPS, dim3(32, WARPS), 0, stream>>>(
      inp_grad, out_grad, inp, gamma, vars, means, rows, hidden_dim);
}
