#include <cuda_runtime.h>

// one thread per element
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int total, int hidden_dim) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int row = i / hidden_dim;
    const int column = i % hidden_dim;
    const float xhat = (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
    atomicAdd(gamma_grad + column, out_grad[i] * xhat);
    atomicAdd(beta_grad + column, out_grad[i]);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
    const int total = rows * hidden_dim;
    cudaMemsetAsync(gamma_grad, 0, hidden_dim * sizeof(float), stream);
    cudaMemsetAsync(beta_grad, 0, hidden_dim * sizeof(float), stream);
    ker_ln_bw_dgamma_dbetta<<<(total + 255) / 256, 256, 0, stream>>>(
        gamma_grad, beta_grad, out_grad, inp, vars, means, total, hidden_dim);
}
