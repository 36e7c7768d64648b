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
    __syncthreads();
    betas[threadIdx.y][threadIdx.x] = dbeta;
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
    ker_ln_bw_dinp<<<rows, threads_for(hidden_dim), 0, stream>>>(inp_grad, out_grad, inp, gamma,
                                                                   vars, means, hidden_dim);
}
