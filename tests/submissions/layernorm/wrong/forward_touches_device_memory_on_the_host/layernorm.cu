// LayerNorm on the GPU: the forward pass and the two kernels of its backward pass.
//
//   grader check          runs the tests here and shows the smallest case that fails
//   grader grade .        writes the score
//
// layernorm.h is the contract (what each launcher computes, and on which arrays); README.md has the
// mathematics. The kernels below are called by the launchers at the end of the file; you may change
// both, and add kernels, helpers and files, as long as the launchers keep their signatures.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

constexpr int WARP = 32;          // threads that run in step and exchange registers by shuffles
constexpr int MAX_THREADS = 1024; // per block
constexpr int TILE = 32;          // columns of a block of the gamma/beta kernel, rows at a time

// ---- Helpers ------------------------------------------------------------------------------------
//
// A row is read in vectors: four floats at a time where hidden_dim is a multiple of 4 (a float4:
// one access of 16 bytes instead of four of 4), else one at a time. `map` and `sum_of` treat both
// alike, so each kernel is written once:
//     map([](float a, float b) { return a * b; }, u, v)      the vector of the products
//     sum_of(v)                                              v.x + v.y + v.z + v.w, or v itself

template <typename F, typename... Rest>
__device__ float map(F f, float a, Rest... rest) {
    return f(a, rest...);
}

template <typename F, typename... Rest>
__device__ float4 map(F f, float4 a, Rest... rest) {
    return make_float4(f(a.x, rest.x...), f(a.y, rest.y...), f(a.z, rest.z...), f(a.w, rest.w...));
}

__device__ float sum_of(float v) { return v; }
__device__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }

// Row `row` of a matrix, as vectors. 64-bit arithmetic: rows * hidden_dim may not fit an int.
template <typename Vec>
__device__ const Vec* row_of(const float* matrix, size_t row, int hidden_dim) {
    return reinterpret_cast<const Vec*>(matrix + row * hidden_dim);
}
template <typename Vec>
__device__ Vec* row_of(float* matrix, size_t row, int hidden_dim) {
    return reinterpret_cast<Vec*>(matrix + row * hidden_dim);
}

// Adds up each of N values over all threads of the block; every thread gets the N totals.
// All threads must call it, and their number must be a multiple of 32.
//
//     total[k] = 0;
//     for (thread = 0; thread < blockDim.x; thread++)
//         total[k] += value[k] of that thread;
template <int N>
__device__ void block_reduce_sum(float (&value)[N]) {
    // BEGIN SOLUTION
    // STEP 1: add up within each warp: five shuffles, with offsets 16, 8, 4, 2, 1.
    // STEP 2: the first lane of each warp stores its sum in shared memory; __syncthreads().
    // STEP 3: each warp reads the sums of all warps (32 at most) and adds them up by shuffles, too.
    // STEP 4: __syncthreads(), so that the next call does not overwrite sums still being read.
    __shared__ float warp_sums[N][WARP];
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    const int warps = blockDim.x / WARP;
    for (int k = 0; k < N; k++) {
        for (int offset = WARP / 2; offset > 0; offset /= 2) {
            value[k] += __shfl_xor_sync(0xffffffffu, value[k], offset);
        }
        if (lane == 0) warp_sums[k][warp] = value[k];
    }
    __syncthreads();
    for (int k = 0; k < N; k++) {
        value[k] = lane < warps ? warp_sums[k][lane] : 0.0f;
        for (int offset = WARP / 2; offset > 0; offset /= 2) {
            value[k] += __shfl_xor_sync(0xffffffffu, value[k], offset);
        }
    }
    __syncthreads();
    // END SOLUTION
}

// ---- Forward ------------------------------------------------------------------------------------
//
// One block per row; Vec is float4 or float. For each row:
//
//     mean = 0;      for (c = 0; c < H; c++) mean += x[c];                      mean /= H;
//     variance = 0;  for (c = 0; c < H; c++) variance += (x[c] - mean) * (x[c] - mean);
//                                                                               variance /= H;
//     for (c = 0; c < H; c++)
//         y[c] = (x[c] - mean) / sqrt(variance + LN_EPSILON) * gamma[c] + beta[c];
template <typename Vec>
__global__ void ker_layer_norm(float* ln_res, float* vars, float* means, const float* inp,
                               const float* gamma, const float* beta, int hidden_dim) {
    // BEGIN SOLUTION
    // STEP 1: the sum of the row: each thread adds up every blockDim.x-th vector, and the block
    //         adds up its threads.
    // STEP 2: the mean, and the variance as the mean of the squared distances from it. The shorter
    //         mean(x * x) - mean * mean cancels where the mean is large: with mean 1000 and
    //         variance 1, float32 is left with one digit of the variance at best.
    // STEP 3: one thread stores the mean and the variance. The plain variance: no epsilon in it.
    // STEP 4: normalise, scale, shift, store.
    const size_t row = blockIdx.x;
    const int vectors = hidden_dim / (sizeof(Vec) / sizeof(float));
    const Vec* x = row_of<Vec>(inp, row, hidden_dim);

    float sum[1] = {0.0f};
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        sum[0] += sum_of(x[i]);
    }
    block_reduce_sum(sum);
    const float mean = sum[0] / hidden_dim;

    float squares[1] = {0.0f};
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        squares[0] += sum_of(map([=](float a) { return (a - mean) * (a - mean); }, x[i]));
    }
    block_reduce_sum(squares);
    const float variance = squares[0] / hidden_dim;

    if (threadIdx.x == 0) {
        means[row] = mean;
        vars[row] = variance;
    }

    const float rstd = rsqrtf(variance + LN_EPSILON);
    Vec* y = row_of<Vec>(ln_res, row, hidden_dim);
    const Vec* scale = row_of<Vec>(gamma, 0, hidden_dim);
    const Vec* shift = row_of<Vec>(beta, 0, hidden_dim);
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        y[i] = map([=](float a, float g, float b) { return (a - mean) * rstd * g + b; },
                   x[i], scale[i], shift[i]);
    }
    // END SOLUTION
}

// ---- Backward: gradients of gamma and beta ------------------------------------------------------
//
//     for (c = 0; c < H; c++) {
//         gamma_grad[c] = beta_grad[c] = 0;
//         for (r = 0; r < rows; r++) {
//             gamma_grad[c] += dy[r][c] * (x[r][c] - means[r]) / sqrt(vars[r] + LN_EPSILON);
//             beta_grad[c] += dy[r][c];
//         }
//     }
//
// The sums run down the columns. A block of 32 x 32 threads takes 32 columns: thread (x, y) works
// on column x of the tile and on every 32nd row, so that a warp (32 threads of equal y) reads 32
// neighbouring floats at once. Then the 32 partial sums of a column lie in 32 different warps;
// shared memory turns the tile over, so that one warp holds them all and adds them up by shuffles.
//
//     columns ->                                  after the turn, warp y holds column y:
//     thread(0,0) thread(1,0) ... thread(31,0)    partial sums of column 0 -> lanes 0..31 of warp 0
//     thread(0,1) thread(1,1) ... thread(31,1)    partial sums of column 1 -> lanes 0..31 of warp 1
//
// With gridDim.y > 1, block (., s) adds up only its share of the rows and writes row s of the
// output, which is then a matrix [gridDim.y][hidden_dim] of partial sums.
__global__ void ker_ln_bw_dgamma_dbetta(float* gamma_grad, float* beta_grad, const float* out_grad,
                                        const float* inp, const float* vars, const float* means,
                                        int rows, int hidden_dim) {
    // BEGIN SOLUTION
    // STEP 1: loop over the rows; keep this thread's partial sums of both gradients in registers.
    //         hidden_dim need not be a multiple of 32: threads beyond the last column add nothing,
    //         but they stay for the barrier and the shuffles below.
    // STEP 2: store the partial sums in two shared 32 x 32 tiles; __syncthreads(). With a 33rd
    //         column in the tiles, reading down a column touches 32 different memory banks.
    // STEP 3: read the tiles transposed and add up over the warp with g.shfl_down, where
    //         cg::thread_block_tile<32> g = cg::tiled_partition<32>(cg::this_thread_block());
    // STEP 4: the first lane of each warp writes the sums of its column.
    __shared__ float gamma_tile[TILE][TILE + 1];
    __shared__ float beta_tile[TILE][TILE + 1];
    const cg::thread_block_tile<32> g = cg::tiled_partition<32>(cg::this_thread_block());

    float gamma_sum = 0.0f;
    float beta_sum = 0.0f;
    const int column = blockIdx.x * TILE + threadIdx.x;
    if (column < hidden_dim) {
        const size_t end = rows;
        for (size_t row = blockIdx.y * TILE + threadIdx.y; row < end; row += gridDim.y * TILE) {
            const float dy = out_grad[row * hidden_dim + column];
            const float x = inp[row * hidden_dim + column];
            gamma_sum += dy * (x - means[row]) * rsqrtf(vars[row] + LN_EPSILON);
            beta_sum += dy;
        }
    }
    gamma_tile[threadIdx.y][threadIdx.x] = gamma_sum;
    beta_tile[threadIdx.y][threadIdx.x] = beta_sum;
    __syncthreads();

    gamma_sum = gamma_tile[threadIdx.x][threadIdx.y];
    beta_sum = beta_tile[threadIdx.x][threadIdx.y];
    for (int offset = g.size() / 2; offset > 0; offset /= 2) {
        gamma_sum += g.shfl_down(gamma_sum, offset);
        beta_sum += g.shfl_down(beta_sum, offset);
    }
    const int sum_column = blockIdx.x * TILE + threadIdx.y;
    if (threadIdx.x == 0 && sum_column < hidden_dim) {
        gamma_grad[size_t(blockIdx.y) * hidden_dim + sum_column] = gamma_sum;
        beta_grad[size_t(blockIdx.y) * hidden_dim + sum_column] = beta_sum;
    }
    // END SOLUTION
}

// BEGIN SOLUTION
// Adds up the partial sums of the slices, always in the same order: the result is reproducible.
__global__ void ker_add_slices(float* gamma_grad, float* beta_grad, const float* gamma_partial,
                               const float* beta_partial, int slices, int hidden_dim) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= hidden_dim) return;
    float gamma_sum = 0.0f;
    float beta_sum = 0.0f;
    for (int slice = 0; slice < slices; slice++) {
        gamma_sum += gamma_partial[size_t(slice) * hidden_dim + column];
        beta_sum += beta_partial[size_t(slice) * hidden_dim + column];
    }
    gamma_grad[column] = gamma_sum;
    beta_grad[column] = beta_sum;
}

// END SOLUTION
// ---- Backward: gradient of the input ------------------------------------------------------------
//
// One block per row; Vec is float4 or float. For each row:
//
//     sum1 = sum2 = 0;
//     for (c = 0; c < H; c++) {
//         dxhat[c] = dy[c] * gamma[c];
//         xhat[c] = (x[c] - mean) / sqrt(variance + LN_EPSILON);
//         sum1 += dxhat[c];
//         sum2 += dxhat[c] * xhat[c];
//     }
//     for (c = 0; c < H; c++)
//         dx[c] = (dxhat[c] - sum1 / H - xhat[c] * sum2 / H) / sqrt(variance + LN_EPSILON);
template <typename Vec>
__global__ void ker_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                               const float* gamma, const float* vars, const float* means,
                               int hidden_dim) {
    // BEGIN SOLUTION
    // STEP 1: dxhat = out_grad * gamma, a vector (float4) at a time.
    // STEP 2: xhat from inp and the row's mean and variance.
    // STEP 3: the block's sums of dxhat and of dxhat * xhat: one block_reduce_sum does both.
    // STEP 4: the gradient; dxhat and xhat are cheaper to compute again than to keep.
    const size_t row = blockIdx.x;
    const int vectors = hidden_dim / (sizeof(Vec) / sizeof(float));
    const Vec* dy = row_of<Vec>(out_grad, row, hidden_dim);
    const Vec* x = row_of<Vec>(inp, row, hidden_dim);
    const Vec* scale = row_of<Vec>(gamma, 0, hidden_dim);
    const float mean = means[row];
    const float rstd = rsqrtf(vars[row] + LN_EPSILON);

    float sums[2] = {0.0f, 0.0f};
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        const Vec dxhat = map([](float d, float g) { return d * g; }, dy[i], scale[i]);
        const Vec xhat = map([=](float a) { return (a - mean) * rstd; }, x[i]);
        sums[0] += sum_of(dxhat);
        sums[1] += sum_of(map([](float d, float h) { return d * h; }, dxhat, xhat));
    }
    block_reduce_sum(sums);
    const float mean1 = sums[0] / hidden_dim;
    const float mean2 = sums[1] / hidden_dim;

    Vec* dx = row_of<Vec>(inp_grad, row, hidden_dim);
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        dx[i] = map(
            [=](float d, float a, float g) {
                const float xhat = (a - mean) * rstd;
                return (d * g - mean1 - xhat * mean2) * rstd;
            },
            dy[i], x[i], scale[i]);
    }
    // END SOLUTION
}

// ---- Launchers ----------------------------------------------------------------------------------

// Threads of a block that works on a row of `vectors` vectors: whole warps, 1024 at most.
static int threads_for(int vectors) {
    const int threads = (vectors + WARP - 1) / WARP * WARP;
    return threads < MAX_THREADS ? threads : MAX_THREADS;
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
    means[0] = 0;

    if (hidden_dim % 4 == 0) {
        ker_layer_norm<float4><<<rows, threads_for(hidden_dim / 4), 0, stream>>>(
            ln_res, vars, means, inp, gamma, beta, hidden_dim);
    } else {
        ker_layer_norm<float><<<rows, threads_for(hidden_dim), 0, stream>>>(
            ln_res, vars, means, inp, gamma, beta, hidden_dim);
    }
}

extern "C" void launch_ln_bw_dgamma_dbeta(float* gamma_grad, float* beta_grad,
                                          const float* out_grad, const float* inp,
                                          const float* vars, const float* means, int rows,
                                          int hidden_dim, cudaStream_t stream) {
    const dim3 block(TILE, TILE);
    const unsigned tiles = (unsigned(hidden_dim) + TILE - 1) / TILE;
    // BEGIN SOLUTION
    // STEP 5, for speed, once the rest is right: one block per 32 columns leaves a GPU mostly idle.
    //         Split the rows over the y dimension of the grid: each slice of the rows writes its
    //         own partial sums, and a second kernel adds the slices up.
    const unsigned enough_blocks = 1024;  // several for each multiprocessor of a large GPU
    const unsigned most = (unsigned(rows) + 4 * TILE - 1) / (4 * TILE);  // 4 rows a thread or more
    const unsigned wanted = (enough_blocks + tiles - 1) / tiles;
    const unsigned slices = wanted < most ? wanted : most;
    float* partial = nullptr;
    const size_t count = size_t(slices) * hidden_dim;
    if (slices > 1) {
        if (cudaMallocAsync(&partial, 2 * count * sizeof(float), stream) == cudaSuccess) {
            ker_ln_bw_dgamma_dbetta<<<dim3(tiles, slices), block, 0, stream>>>(
                partial, partial + count, out_grad, inp, vars, means, rows, hidden_dim);
            ker_add_slices<<<(unsigned(hidden_dim) + 127) / 128, 128, 0, stream>>>(
                gamma_grad, beta_grad, partial, partial + count, slices, hidden_dim);
            cudaFreeAsync(partial, stream);
            return;
        }
        cudaGetLastError();  // no scratch memory is no failure: a single slice needs none
    }
    // END SOLUTION
    ker_ln_bw_dgamma_dbetta<<<dim3(tiles, 1), block, 0, stream>>>(
        gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
    if (hidden_dim % 4 == 0) {
        ker_ln_bw_dinp<float4><<<rows, threads_for(hidden_dim / 4), 0, stream>>>(
            inp_grad, out_grad, inp, gamma, vars, means, hidden_dim);
    } else {
        ker_ln_bw_dinp<float><<<rows, threads_for(hidden_dim), 0, stream>>>(
            inp_grad, out_grad, inp, gamma, vars, means, hidden_dim);
    }
}
