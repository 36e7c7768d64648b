#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__device__ float reduce_block(cg::thread_block& block, float v) {
  __shared__ float parts[32];
  auto warp = cg::tiled_partition<32>(block);
  v = cg::reduce(warp, v, cg::plus<float>());
  if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = v;
  block.sync();
  v = warp.thread_rank() < warp.meta_group_size() ? parts[warp.thread_rank()] : 0.0f;
  v = cg::reduce(warp, v, cg::plus<float>());
  block.sync();
  return v;
}

__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
  auto block = cg::this_thread_block();
  const size_t row = block.group_index().x;
  const float* x = inp + row * hidden_dim;
  float sum = 0.0f;
  for (int i = block.thread_rank(); i < hidden_dim; i += block.size()) sum += x[i];
  const float mean = reduce_block(block, sum) / hidden_dim;
  float sq = 0.0f;
  for (int i = block.thread_rank(); i < hidden_dim; i += block.size()) {
    sq += (x[i] - mean) * (x[i] - mean);
  }
  const float var = reduce_block(block, sq) / hidden_dim;
  if (block.thread_rank() == 0) {
    means[row] = mean;
    vars[row] = var;
  }
  const float rstd = rsqrtf(var + LN_EPSILON);
  for (int i = block.thread_rank(); i < hidden_dim; i += block.size()) {
    ln_res[row * hidden_dim + i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
  }
}

// a tile of 8 threads per column
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  const int column = block.group_index().x * tile.meta_group_size() + tile.meta_group_rank();
  float dgamma = 0.0f;
  float dbeta = 0.0f;
  if (column < hidden_dim) {
    for (int r = tile.thread_rank(); r < rows; r += tile.size()) {
      const size_t i = (size_t)r * hidden_dim + column;
      dgamma += out_grad[i] * (inp[i] - means[r]) * rsqrtf(vars[r] + LN_EPSILON);
      dbeta += out_grad[i];
    }
  }
  for (int offset = tile.size() / 2; offset > 0; offset /= 2) {
    dgamma += tile.shfl_xor(dgamma, offset);
    dbeta += tile.shfl_xor(dbeta, offset);
  }
  if (column < hidden_dim && tile.thread_rank() == 0) {
    gamma_grad[column] = dgamma;
    beta_grad[column] = dbeta;
  }
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
  auto block = cg::this_thread_block();
  const size_t row = block.group_index().x;
  const float* dy = out_grad + row * hidden_dim;
  const float* x = inp + row * hidden_dim;
  const float mean = means[row];
  const float rstd = rsqrtf(vars[row] + LN_EPSILON);
  float s1 = 0.0f;
  float s2 = 0.0f;
  for (int i = block.thread_rank(); i < hidden_dim; i += block.size()) {
    s1 += dy[i] * gamma[i];
    s2 += dy[i] * gamma[i] * (x[i] - mean) * rstd;
  }
  s1 = reduce_block(block, s1) / hidden_dim;
  s2 = reduce_block(block, s2) / hidden_dim;
  for (int i = block.thread_rank(); i < hidden_dim; i += block.size()) {
    inp_grad[row * hidden_dim + i] = (dy[i] * gamma[i] - s1 - (x[i] - mean) * rstd * s2) * rstd;
  }
}

static int block_size(int n) {
  int threads = (n + 31) / 32 * 32;
  return threads > 1024 ? 1024 : threads;
}

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
  const int columns_per_block = 256 / 8;
  const int blocks = (hidden_dim + columns_per_block - 1) / columns_per_block;
  ker_ln_bw_dgamma_dbetta<<<blocks, 256, 0, stream>>>(gamma_grad, beta_grad, out_grad, inp, vars,
                                                      means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  ker_ln_bw_dinp<<<rows, block_size(hidden_dim), 0, stream>>>(inp_grad, out_grad, inp, gamma, vars,
                                                              means, hidden_dim);
}
