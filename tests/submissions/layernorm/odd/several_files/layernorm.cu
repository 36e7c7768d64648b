#include "forward.cuh"
#include "backward/dgamma.cuh"
#include "backward/dinp.cuh"
#include "launch.h"

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  ker_layer_norm<<<rows, block_size(hidden_dim), 0, stream>>>(ln_res, vars, means, inp, gamma, beta,
                                                              hidden_dim);
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
  ker_ln_bw_dinp<<<rows, block_size(hidden_dim), 0, stream>>>(inp_grad, out_grad, inp, gamma, vars,
                                                              means, hidden_dim);
}
