#include <cuda_runtime.h>

// every block takes some rows and adds its sums to the result
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
    for (int column = threadIdx.x; column < hidden_dim; column += blockDim.x) {
        float dgamma = 0.0f, dbeta = 0.0f;
        for (int row = blockIdx.x; row < rows; row += gridDim.x) {
            const size_t i = size_t(row) * hidden_dim + column;
            dgamma += out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
            dbeta += out_grad[i];
        }
        atomicAdd(gamma_grad + column, dgamma);
        atomicAdd(beta_grad + column, dbeta);
    }
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
    cudaMemset(gamma_grad, 0, hidden_dim * sizeof(float));
    cudaMemset(beta_grad, 0, hidden_dim * sizeof(float));
    ker_ln_bw_dgamma_dbetta<<<rows < 128 ? rows : 128, 256, 0, stream>>>(
        gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}
