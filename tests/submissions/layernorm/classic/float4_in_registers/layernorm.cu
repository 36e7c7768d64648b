#include <cuda_runtime.h>

// The sum over the block, which every thread gets; whole warps, all of whose threads take part.
__device__ float block_sum(float v) {
    __shared__ float sums[32];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x % 32] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
    __syncthreads();
    return v;
}

static int threads_for(int work) { return work >= 256 ? 256 : (work + 31) / 32 * 32; }

// How many slices of the rows: enough blocks for a large GPU, and at least 64 rows in each.
static int slices_for(int rows, int hidden_dim) {
    const int wanted = 2048 / ((hidden_dim + 31) / 32) + 1;
    const int most = (rows + 63) / 64;
    return wanted < most ? wanted : most;
}

constexpr int MOST = 4;  // float4 per thread that are kept: rows of up to 4096 at 256 threads
constexpr int THREADS = 256;

static bool fits(int hidden_dim) { return hidden_dim % 4 == 0 && hidden_dim <= 4 * MOST * THREADS; }

__device__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ float4 times(float4 a, float4 b) {
    return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
// (v - a) * b
__device__ float4 scaled(float4 v, float a, float b) {
    return make_float4((v.x - a) * b, (v.y - a) * b, (v.z - a) * b, (v.w - a) * b);
}

__global__ void __launch_bounds__(THREADS)
ker_layer_norm_float4(float* ln_res, float* vars, float* means, const float* inp,
                      const float* gamma, const float* beta, int hidden_dim) {
    const size_t row = blockIdx.x;
    const int vectors = hidden_dim / 4;
    const float4* x = reinterpret_cast<const float4*>(inp + row * hidden_dim);
    float4 kept[MOST];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const int i = threadIdx.x + k * blockDim.x;
        kept[k] = i < vectors ? x[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        sum += sum_of(kept[k]);
    }
    const float mean = block_sum(sum) / hidden_dim;
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const float4 centred = scaled(kept[k], mean, 1.0f);
        if (threadIdx.x + k * blockDim.x < vectors) squares += sum_of(times(centred, centred));
    }
    const float var = block_sum(squares) / hidden_dim;
    const float rstd = rsqrtf(var + LN_EPSILON);
    float4* y = reinterpret_cast<float4*>(ln_res + row * hidden_dim);
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const int i = threadIdx.x + k * blockDim.x;
        if (i < vectors) {
            const float4 g = reinterpret_cast<const float4*>(gamma)[i];
            const float4 b = reinterpret_cast<const float4*>(beta)[i];
            const float4 h = times(scaled(kept[k], mean, rstd), g);
            y[i] = make_float4(h.x + b.x, h.y + b.y, h.z + b.z, h.w + b.w);
        }
    }
    if (threadIdx.x == 0) {
        means[row] = mean;
        vars[row] = var;
    }
}

__global__ void __launch_bounds__(THREADS)
ker_ln_bw_dinp_float4(float* inp_grad, const float* out_grad, const float* inp, const float* gamma,
                      const float* vars, const float* means, int hidden_dim) {
    const size_t row = blockIdx.x;
    const int vectors = hidden_dim / 4;
    const float4* dy = reinterpret_cast<const float4*>(out_grad + row * hidden_dim);
    const float4* x = reinterpret_cast<const float4*>(inp + row * hidden_dim);
    const float mean = means[row];
    const float rstd = rsqrtf(vars[row] + LN_EPSILON);
    float4 dxhat[MOST], xhat[MOST];
    float sum1 = 0.0f, sum2 = 0.0f;
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const int i = threadIdx.x + k * blockDim.x;
        dxhat[k] = xhat[k] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (i < vectors) {
            dxhat[k] = times(dy[i], reinterpret_cast<const float4*>(gamma)[i]);
            xhat[k] = scaled(x[i], mean, rstd);
        }
        sum1 += sum_of(dxhat[k]);
        sum2 += sum_of(times(dxhat[k], xhat[k]));
    }
    sum1 = block_sum(sum1) / hidden_dim;
    sum2 = block_sum(sum2) / hidden_dim;
    float4* dx = reinterpret_cast<float4*>(inp_grad + row * hidden_dim);
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        const int i = threadIdx.x + k * blockDim.x;
        if (i < vectors) {
            const float4 d = dxhat[k], h = xhat[k];
            dx[i] = make_float4((d.x - sum1 - h.x * sum2) * rstd, (d.y - sum1 - h.y * sum2) * rstd,
                                (d.z - sum1 - h.z * sum2) * rstd, (d.w - sum1 - h.w * sum2) * rstd);
        }
    }
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
    const size_t row = blockIdx.x;
    const float* x = inp + row * hidden_dim;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < hidden_dim; c += blockDim.x) sum += x[c];
    const float mean = block_sum(sum) / hidden_dim;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < hidden_dim; c += blockDim.x) {
        squares += (x[c] - mean) * (x[c] - mean);
    }
    const float var = block_sum(squares) / hidden_dim;
    const float rstd = rsqrtf(var + LN_EPSILON);
    for (int c = threadIdx.x; c < hidden_dim; c += blockDim.x) {
        ln_res[row * hidden_dim + c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
    }
    if (threadIdx.x == 0) {
        means[row] = mean;
        vars[row] = var;
    }
}

// Blocks of 32 x 8 threads: 32 columns, and a slice of the rows; slices are added up by atomics.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
    __shared__ float gammas[8][32];
    __shared__ float betas[8][32];
    const int column = blockIdx.x * 32 + threadIdx.x;
    float dgamma = 0.0f, dbeta = 0.0f;
    if (column < hidden_dim) {
        for (int row = blockIdx.y * 8 + threadIdx.y; row < rows; row += 8 * gridDim.y) {
            const size_t i = size_t(row) * hidden_dim + column;
            dgamma += out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
            dbeta += out_grad[i];
        }
    }
    gammas[threadIdx.y][threadIdx.x] = dgamma;
    betas[threadIdx.y][threadIdx.x] = dbeta;
    __syncthreads();
    if (threadIdx.y == 0 && column < hidden_dim) {
        for (int y = 1; y < 8; y++) {
            dgamma += gammas[y][threadIdx.x];
            dbeta += betas[y][threadIdx.x];
        }
        atomicAdd(gamma_grad + column, dgamma);
        atomicAdd(beta_grad + column, dbeta);
    }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
    const size_t row = blockIdx.x;
    const float* dy = out_grad + row * hidden_dim;
    const float* x = inp + row * hidden_dim;
    const float mean = means[row];
    const float rstd = rsqrtf(vars[row] + LN_EPSILON);
    float sum1 = 0.0f, sum2 = 0.0f;
    for (int c = threadIdx.x; c < hidden_dim; c += blockDim.x) {
        const float dxhat = dy[c] * gamma[c];
        sum1 += dxhat;
        sum2 += dxhat * ((x[c] - mean) * rstd);
    }
    sum1 = block_sum(sum1) / hidden_dim;
    sum2 = block_sum(sum2) / hidden_dim;
    for (int c = threadIdx.x; c < hidden_dim; c += blockDim.x) {
        const float xhat = (x[c] - mean) * rstd;
        inp_grad[row * hidden_dim + c] = (dy[c] * gamma[c] - sum1 - xhat * sum2) * rstd;
    }
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
    if (fits(hidden_dim)) {
        ker_layer_norm_float4<<<rows, THREADS, 0, stream>>>(ln_res, vars, means, inp, gamma, beta,
                                                            hidden_dim);
        return;
    }
    ker_layer_norm<<<rows, threads_for(hidden_dim), 0, stream>>>(ln_res, vars, means, inp, gamma,
                                                                   beta, hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
    const dim3 grid((hidden_dim + 31) / 32, slices_for(rows, hidden_dim));
    cudaMemsetAsync(gamma_grad, 0, hidden_dim * sizeof(float), stream);
    cudaMemsetAsync(beta_grad, 0, hidden_dim * sizeof(float), stream);
    ker_ln_bw_dgamma_dbetta<<<grid, dim3(32, 8), 0, stream>>>(gamma_grad, beta_grad, out_grad, inp,
                                                              vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
    if (fits(hidden_dim)) {
        ker_ln_bw_dinp_float4<<<rows, THREADS, 0, stream>>>(inp_grad, out_grad, inp, gamma, vars,
                                                            means, hidden_dim);
        return;
    }
    ker_ln_bw_dinp<<<rows, threads_for(hidden_dim), 0, stream>>>(inp_grad, out_grad, inp, gamma,
                                                                   vars, means, hidden_dim);
}
