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

// Both sums in one pass over the row: E[x^2] - E[x]^2.
__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
    const size_t row = blockIdx.x;
    const float* x = inp + row * hidden_dim;
    float sum = 0.0f, squares = 0.0f;
    for (int c = threadIdx.x; c < hidden_dim; c += blockDim.x) {
        sum += x[c];
        squares += x[c] * x[c];
    }
    const float mean = block_sum(sum) / hidden_dim;
    const float var = block_sum(squares) / hidden_dim - mean * mean;
    const float rstd = rsqrtf(var + LN_EPSILON);
    for (int c = threadIdx.x; c < hidden_dim; c += blockDim.x) {
        ln_res[row * hidden_dim + c] = (x[c] - mean) * rstd * gamma[c] + beta[c];
    }
    if (threadIdx.x == 0) {
        means[row] = mean;
        vars[row] = var;
    }
}

// One block per 32 columns: 32 x 32 threads go down the rows, the tile is turned over in shared
// memory, and each warp adds up one column.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
    __shared__ float gammas[32][33];
    __shared__ float betas[32][33];
    const int column = blockIdx.x * 32 + threadIdx.x;
    float dgamma = 0.0f, dbeta = 0.0f;
    if (column < hidden_dim) {
        for (int row = threadIdx.y; row < rows; row += 32) {
            const size_t i = size_t(row) * hidden_dim + column;
            dgamma += out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
            dbeta += out_grad[i];
        }
    }
    gammas[threadIdx.y][threadIdx.x] = dgamma;
    betas[threadIdx.y][threadIdx.x] = dbeta;
    __syncthreads();
    dgamma = gammas[threadIdx.x][threadIdx.y];
    dbeta = betas[threadIdx.x][threadIdx.y];
    for (int offset = 16; offset > 0; offset /= 2) {
        dgamma += __shfl_down_sync(0xffffffffu, dgamma, offset);
        dbeta += __shfl_down_sync(0xffffffffu, dbeta, offset);
    }
    const int written = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && written < hidden_dim) {
        gamma_grad[written] = dgamma;
        beta_grad[written] = dbeta;
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
    ker_ln_bw_dgamma_dbetta<<<(hidden_dim + 31) / 32, dim3(32, 32), 0, stream>>>(
        gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
    ker_ln_bw_dinp<<<rows, threads_for(hidden_dim), 0, stream>>>(inp_grad, out_grad, inp, gamma,
                                                                   vars, means, hidden_dim);
}
