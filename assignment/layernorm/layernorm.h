// The contract of the LayerNorm assignment: the three launchers that layernorm.cu defines.
//
// Every pointer is a device pointer to a row-major float32 array whose base is 256-byte aligned:
//     inp, ln_res, out_grad, inp_grad         [rows][hidden_dim]
//     gamma, beta, gamma_grad, beta_grad      [hidden_dim]
//     means, vars                             [rows]
// rows >= 1 and hidden_dim >= 1; rows * hidden_dim may be larger than an int can hold.
//
// A launcher enqueues its work on `stream` and returns without waiting for it. It may allocate
// scratch memory; it must not leak it. Outputs arrive filled with NaN: every element must be
// written, and a kernel that accumulates (atomicAdd) must set its target to zero first. Inputs must
// not be written.
//
// This header is included in front of layernorm.cu: another signature does not compile.
#pragma once
#include <cuda_runtime.h>

constexpr float LN_EPSILON = 1e-5f;

extern "C" {
// Forward.
//     means[r]    = mean of row r
//     vars[r]     = population variance of row r: divided by hidden_dim, WITHOUT epsilon
//     ln_res[r,c] = (inp[r,c] - means[r]) / sqrt(vars[r] + LN_EPSILON) * gamma[c] + beta[c]
void launch_layernorm(float* ln_res, float* vars, float* means,
                      const float* inp, const float* gamma, const float* beta,
                      int rows, int hidden_dim, cudaStream_t stream);

// Gradients of gamma and beta. vars and means are those of the forward pass: without epsilon.
//     xhat[r,c]     = (inp[r,c] - means[r]) / sqrt(vars[r] + LN_EPSILON)
//     gamma_grad[c] = sum over r of out_grad[r,c] * xhat[r,c]
//     beta_grad[c]  = sum over r of out_grad[r,c]
void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                               const float* out_grad, const float* inp,
                               const float* vars, const float* means,
                               int rows, int hidden_dim, cudaStream_t stream);

// Gradient of the input. The means are taken over row r.
//     dxhat[r,c]    = out_grad[r,c] * gamma[c]
//     inp_grad[r,c] = (dxhat[r,c] - mean(dxhat[r,:]) - xhat[r,c] * mean(dxhat[r,:] * xhat[r,:]))
//                     / sqrt(vars[r] + LN_EPSILON)
void launch_ln_bw_dinp(float* inp_grad,
                       const float* out_grad, const float* inp, const float* gamma,
                       const float* vars, const float* means,
                       int rows, int hidden_dim, cudaStream_t stream);
}
