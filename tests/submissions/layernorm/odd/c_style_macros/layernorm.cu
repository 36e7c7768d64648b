#include <cuda_runtime.h>

#define WS 32
#define MASK 0xffffffff
#define CEIL(a, b) (((a) + (b) - 1) / (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define IDX(r, c, n) ((size_t)(r) * (size_t)(n) + (size_t)(c))
#define FOR_COLS(i, n) for (int i = threadIdx.x; i < (n); i += blockDim.x)
#define WARP_SUM(v)                                                                    \
  do {                                                                                 \
    for (int o_ = WS / 2; o_ > 0; o_ >>= 1) (v) += __shfl_xor_sync(MASK, (v), o_, WS); \
  } while (0)
#define BLOCK_SUM(v, buf)                                                                   \
  do {                                                                                      \
    WARP_SUM(v);                                                                            \
    if ((threadIdx.x & (WS - 1)) == 0) (buf)[threadIdx.x / WS] = (v);                       \
    __syncthreads();                                                                        \
    (v) = (threadIdx.x & (WS - 1)) < blockDim.x / WS ? (buf)[threadIdx.x & (WS - 1)] : 0.f; \
    WARP_SUM(v);                                                                            \
    __syncthreads();                                                                        \
  } while (0)
#define RSTD(v) rsqrtf((v) + LN_EPSILON)
#define LAUNCH(kernel, grid, block, ...) kernel<<<(grid), (block), 0, stream>>>(__VA_ARGS__)

__global__ void ker_layer_norm(float* y, float* vars, float* means, const float* x, const float* g,
                               const float* b, int n) {
  __shared__ float buf[WS];
  const int r = blockIdx.x;
  float m = 0.f, v = 0.f;
  FOR_COLS(i, n) m += x[IDX(r, i, n)];
  BLOCK_SUM(m, buf);
  m /= n;
  FOR_COLS(i, n) {
    float d = x[IDX(r, i, n)] - m;
    v += d * d;
  }
  BLOCK_SUM(v, buf);
  v /= n;
  if (!threadIdx.x) means[r] = m, vars[r] = v;
  FOR_COLS(i, n) y[IDX(r, i, n)] = (x[IDX(r, i, n)] - m) * RSTD(v) * g[i] + b[i];
}

__global__ void ker_ln_bw_dgamma_dbetta(float* gg, float* bg, const float* dy, const float* x,
                                        const float* vars, const float* means, int rows, int n) {
  __shared__ float buf[WS];
  for (int c = blockIdx.x; c < n; c += gridDim.x) {
    float dg = 0.f, db = 0.f;
    FOR_COLS(r, rows) {
      dg += dy[IDX(r, c, n)] * (x[IDX(r, c, n)] - means[r]) * RSTD(vars[r]);
      db += dy[IDX(r, c, n)];
    }
    BLOCK_SUM(dg, buf);
    BLOCK_SUM(db, buf);
    if (!threadIdx.x) gg[c] = dg, bg[c] = db;
  }
}

__global__ void ker_ln_bw_dinp(float* dx, const float* dy, const float* x, const float* g,
                               const float* vars, const float* means, int n) {
  __shared__ float buf[WS];
  const int r = blockIdx.x;
  const float m = means[r], k = RSTD(vars[r]);
  float a = 0.f, b = 0.f;
  FOR_COLS(i, n) {
    a += dy[IDX(r, i, n)] * g[i];
    b += dy[IDX(r, i, n)] * g[i] * (x[IDX(r, i, n)] - m) * k;
  }
  BLOCK_SUM(a, buf);
  BLOCK_SUM(b, buf);
  a /= n, b /= n;
  FOR_COLS(i, n)
  dx[IDX(r, i, n)] = k * (dy[IDX(r, i, n)] * g[i] - a - (x[IDX(r, i, n)] - m) * k * b);
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  LAUNCH(ker_layer_norm, rows, MIN(CEIL(hidden_dim, WS) * WS, 512), ln_res, vars, means, inp, gamma,
         beta, hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  LAUNCH(ker_ln_bw_dgamma_dbetta, MIN(hidden_dim, 1024), MIN(CEIL(rows, WS) * WS, 128), gamma_grad,
         beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  LAUNCH(ker_ln_bw_dinp, rows, MIN(CEIL(hidden_dim, WS) * WS, 512), inp_grad, out_grad, inp, gamma,
         vars, means, hidden_dim);
}
