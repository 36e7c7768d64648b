// LayerNorm kernels that lose precision where a macro says so, and are right without one. INPUT,
// XHAT, STATISTIC and PRODUCT each name a function: to_half, to_bfloat16 or to_tf32.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ float exactly(float v) { return v; }
__device__ float to_half(float v) { return __half2float(__float2half(v)); }
__device__ float to_bfloat16(float v) { return __bfloat162float(__float2bfloat16(v)); }
// What a tensor core reads: ten bits of the fraction.
__device__ float to_tf32(float v) { return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u); }

#ifndef INPUT
#define INPUT exactly
#endif
#ifndef XHAT
#define XHAT exactly
#endif
#ifndef STATISTIC
#define STATISTIC exactly
#endif
#ifndef PRODUCT
#define PRODUCT exactly
#endif

// The sum over a warp, which every lane gets.
__device__ float warp_sum(float v) {
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

// One warp per row.
__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
    const size_t row = blockIdx.x;
    const float* x = inp + row * hidden_dim;
    float sum = 0.0f, squares = 0.0f;
    for (int c = threadIdx.x; c < hidden_dim; c += 32) sum += INPUT(x[c]);
    const float mean = STATISTIC(warp_sum(sum) / hidden_dim);
    for (int c = threadIdx.x; c < hidden_dim; c += 32) {
        squares += (INPUT(x[c]) - mean) * (INPUT(x[c]) - mean);
    }
    const float var = STATISTIC(warp_sum(squares) / hidden_dim);
    const float rstd = 1.0f / sqrtf(var + LN_EPSILON);
    for (int c = threadIdx.x; c < hidden_dim; c += 32) {
        const float xhat = XHAT((INPUT(x[c]) - mean) * rstd);
        ln_res[row * hidden_dim + c] = PRODUCT(xhat * gamma[c]) + beta[c];
    }
    if (threadIdx.x == 0) {
        means[row] = mean;
        vars[row] = var;
    }
}

// One warp per column.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
    const int column = blockIdx.x;
    float dgamma = 0.0f, dbeta = 0.0f;
    for (int row = threadIdx.x; row < rows; row += 32) {
        const size_t i = size_t(row) * hidden_dim + column;
        const float rstd = STATISTIC(1.0f / sqrtf(vars[row] + LN_EPSILON));
        const float xhat = XHAT((INPUT(inp[i]) - STATISTIC(means[row])) * rstd);
        dgamma += PRODUCT(INPUT(out_grad[i]) * xhat);
        dbeta += INPUT(out_grad[i]);
    }
    dgamma = warp_sum(dgamma);
    dbeta = warp_sum(dbeta);
    if (threadIdx.x == 0) {
        gamma_grad[column] = dgamma;
        beta_grad[column] = dbeta;
    }
}

// One warp per row.
__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
    const size_t row = blockIdx.x;
    const float* dy = out_grad + row * hidden_dim;
    const float* x = inp + row * hidden_dim;
    const float mean = STATISTIC(means[row]);
    const float rstd = STATISTIC(1.0f / sqrtf(vars[row] + LN_EPSILON));
    float sum1 = 0.0f, sum2 = 0.0f;
    for (int c = threadIdx.x; c < hidden_dim; c += 32) {
        const float dxhat = PRODUCT(INPUT(dy[c]) * gamma[c]);
        sum1 += dxhat;
        sum2 += dxhat * XHAT((INPUT(x[c]) - mean) * rstd);
    }
    sum1 = warp_sum(sum1) / hidden_dim;
    sum2 = warp_sum(sum2) / hidden_dim;
    for (int c = threadIdx.x; c < hidden_dim; c += 32) {
        const float xhat = XHAT((INPUT(x[c]) - mean) * rstd);
        const float dxhat = PRODUCT(INPUT(dy[c]) * gamma[c]);
        inp_grad[row * hidden_dim + c] = (dxhat - sum1 - xhat * sum2) * rstd;
    }
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
    ker_layer_norm<<<rows, 32, 0, stream>>>(ln_res, vars, means, inp, gamma, beta, hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
    ker_ln_bw_dgamma_dbetta<<<hidden_dim, 32, 0, stream>>>(gamma_grad, beta_grad, out_grad, inp,
                                                          vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
    ker_ln_bw_dinp<<<rows, 32, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars, means, hidden_dim);
}
