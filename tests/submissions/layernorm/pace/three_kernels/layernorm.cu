#include <cuda_runtime.h>

#define THREADS 256
#define MOST_PRODUCTS (1 << 26)

__device__ float block_sum(float v) {
  __shared__ float sums[THREADS / 32];
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0.0f;
  for (int i = 0; i < THREADS / 32; i++) v += sums[i];
  return v;
}

// Forward: one block per row for the sums, one thread per element for the rest.
__global__ void ker_means(float* means, const float* inp, int hidden_dim) {
  const float* x = inp + (size_t)blockIdx.x * hidden_dim;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) means[blockIdx.x] = sum / hidden_dim;
}

__global__ void ker_vars(float* vars, const float* means, const float* inp, int hidden_dim) {
  const float* x = inp + (size_t)blockIdx.x * hidden_dim;
  float mean = means[blockIdx.x];
  float sq = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) sq += (x[i] - mean) * (x[i] - mean);
  sq = block_sum(sq);
  if (threadIdx.x == 0) vars[blockIdx.x] = sq / hidden_dim;
}

__global__ void ker_normalise(float* ln_res, const float* vars, const float* means,
                              const float* inp, const float* gamma, const float* beta,
                              size_t count, int hidden_dim) {
  size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  size_t row = i / hidden_dim;
  int col = i % hidden_dim;
  ln_res[i] = (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON) * gamma[col] + beta[col];
}

// Gradients of gamma and beta: the products first, then the sums down the columns.
__global__ void ker_products(float* products, const float* out_grad, const float* inp,
                             const float* vars, const float* means, size_t count, int hidden_dim) {
  size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  size_t row = i / hidden_dim;
  products[i] = out_grad[i] * (inp[i] - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
}

// On top of what is there already, unless these are the first rows.
__global__ void ker_column_sums(float* sums, const float* matrix, int rows, int hidden_dim,
                                bool first) {
  __shared__ float parts[8][32];
  int col = blockIdx.x * 32 + threadIdx.x;
  float sum = 0.0f;
  if (col < hidden_dim) {
    for (int row = threadIdx.y; row < rows; row += 8) sum += matrix[(size_t)row * hidden_dim + col];
  }
  parts[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && col < hidden_dim) {
    for (int i = 1; i < 8; i++) sum += parts[i][threadIdx.x];
    sums[col] = first ? sum : sums[col] + sum;
  }
}

// Gradient of the input: one sum over the row, the other one, the result.
__global__ void ker_first_sums(float* sums, const float* out_grad, const float* gamma,
                               int hidden_dim) {
  const float* dy = out_grad + (size_t)blockIdx.x * hidden_dim;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) sum += dy[i] * gamma[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum / hidden_dim;
}

__global__ void ker_second_sums(float* sums, const float* out_grad, const float* inp,
                                const float* gamma, const float* vars, const float* means,
                                int hidden_dim) {
  const float* dy = out_grad + (size_t)blockIdx.x * hidden_dim;
  const float* x = inp + (size_t)blockIdx.x * hidden_dim;
  float mean = means[blockIdx.x];
  float rstd = rsqrtf(vars[blockIdx.x] + LN_EPSILON);
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden_dim; i += THREADS) {
    sum += dy[i] * gamma[i] * ((x[i] - mean) * rstd);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum / hidden_dim;
}

__global__ void ker_ln_bw_dinp(float* inp_grad, const float* sum1, const float* sum2,
                               const float* out_grad, const float* inp, const float* gamma,
                               const float* vars, const float* means, size_t count,
                               int hidden_dim) {
  size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
  if (i >= count) return;
  size_t row = i / hidden_dim;
  int col = i % hidden_dim;
  float rstd = rsqrtf(vars[row] + LN_EPSILON);
  float xhat = (inp[i] - means[row]) * rstd;
  inp_grad[i] = (out_grad[i] * gamma[col] - sum1[row] - xhat * sum2[row]) * rstd;
}

// grows when a larger shape comes along; never freed
static float* workspace(size_t floats) {
  static float* memory = nullptr;
  static size_t capacity = 0;
  if (floats > capacity) {
    cudaFree(memory);
    cudaMalloc(&memory, floats * sizeof(float));
    capacity = floats;
  }
  return memory;
}

static unsigned blocks_for(size_t count) { return (count + THREADS - 1) / THREADS; }

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
  size_t count = (size_t)rows * hidden_dim;
  ker_means<<<rows, THREADS, 0, stream>>>(means, inp, hidden_dim);
  ker_vars<<<rows, THREADS, 0, stream>>>(vars, means, inp, hidden_dim);
  ker_normalise<<<blocks_for(count), THREADS, 0, stream>>>(ln_res, vars, means, inp, gamma, beta,
                                                           count, hidden_dim);
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
  int most = MOST_PRODUCTS / hidden_dim + 1;  // rows at a time: all of them, but for huge shapes
  float* products = workspace((size_t)(rows < most ? rows : most) * hidden_dim);
  dim3 grid((hidden_dim + 31) / 32);
  for (int row = 0; row < rows; row += most) {
    int some = rows - row < most ? rows - row : most;
    size_t count = (size_t)some * hidden_dim;
    size_t offset = (size_t)row * hidden_dim;
    ker_products<<<blocks_for(count), THREADS, 0, stream>>>(
        products, out_grad + offset, inp + offset, vars + row, means + row, count, hidden_dim);
    ker_column_sums<<<grid, dim3(32, 8), 0, stream>>>(gamma_grad, products, some, hidden_dim,
                                                      row == 0);
  }
  ker_column_sums<<<grid, dim3(32, 8), 0, stream>>>(beta_grad, out_grad, rows, hidden_dim, true);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
  size_t count = (size_t)rows * hidden_dim;
  float* sum1 = workspace(2 * (size_t)rows);
  float* sum2 = sum1 + rows;
  ker_first_sums<<<rows, THREADS, 0, stream>>>(sum1, out_grad, gamma, hidden_dim);
  ker_second_sums<<<rows, THREADS, 0, stream>>>(sum2, out_grad, inp, gamma, vars, means,
                                                hidden_dim);
  ker_ln_bw_dinp<<<blocks_for(count), THREADS, 0, stream>>>(inp_grad, sum1, sum2, out_grad, inp,
                                                            gamma, vars, means, count, hidden_dim);
}
