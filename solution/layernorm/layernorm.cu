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

// BEGIN SOLUTION
// ---- As fast as the memory ----------------------------------------------------------------------
//
// The kernels above are right for every shape. Those below are for speed: they read each element
// once and keep it in registers until it has been used for the last time, so that their time is
// that of the memory. What does not fit is left to the kernels above.
//
// A row has a group of T threads to itself; a block works on G rows. Rows of more than 8192 floats
// are shared by a cluster: blocks that run at the same time and may write into each other's shared
// memory. Clusters came with compute capability 9.0 (Hopper).

constexpr int MAX_CLUSTER = 8;  // blocks; every device with clusters can run that many

// The sum over each LANES neighbouring lanes of a warp, in all of them.
template <int LANES>
__device__ float lane_sum(float v) {
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    }
    return v;
}

// 1 / n for a number of elements: a fast division, and what that leaves inexact made good. A plain
// division branches, for tiny numbers that a count never is, and the compiler moves no load across
// a branch: loads behind it in the code are not under way together with those before it.
__device__ float reciprocal(float n) {
    const float about = __fdividef(1.0f, n);
    return fmaf(about, fmaf(-n, about, 1.0f), about);
}

// What a thread holds of a row that T threads share: the vectors first, first + T, first + 2T, ...,
// V of them, as far as the row has them. A block of a cluster begins at vector `offset`.
template <typename Vec, int T, int V>
struct Share {
    static constexpr int FLOATS = sizeof(Vec) / sizeof(float);
    static constexpr int LANES = T < WARP ? T : WARP;
    int first, end;

    __device__ Share(int offset, int hidden_dim)
        : first(offset + threadIdx.x % T), end(hidden_dim / FLOATS) {}

    __device__ bool has(int k) const { return first + k * T < end; }

    // The loads do not depend on each other: all of them are under way at once.
    __device__ void load(Vec (&to)[V], const float* matrix, size_t row, int hidden_dim) const {
        const Vec* from = row_of<Vec>(matrix, row, hidden_dim) + first;
#pragma unroll
        for (int k = 0; k < V; k++) to[k] = has(k) ? from[k * T] : Vec{};
    }

    // How many elements of the row the lanes of this warp hold.
    __device__ float elements_of_warp() const {
        const int left = end - (first - int(threadIdx.x % LANES));  // from the warp's first lane on
        int vectors = 0;
#pragma unroll
        for (int k = 0; k < V; k++) vectors += min(max(left - k * T, 0), LANES);
        return vectors * FLOATS;
    }
};

// Of some elements of a row: their sum, mean, squared distances from that mean, and number.
struct alignas(16) Moments {
    float sum, mean, squares, count;
};

// The moments of the `count` elements that the lanes of a warp hold: two passes over registers.
template <typename Vec, int T, int V>
__device__ Moments moments_of_warp(const Vec (&x)[V], const Share<Vec, T, V>& share, float count) {
    constexpr int LANES = Share<Vec, T, V>::LANES;
    // A plain division, before x is used: its branch keeps the loads in front of it from being put
    // off (see reciprocal) until x has arrived.
    const float inverse = count > 0.0f ? 1.0f / count : 0.0f;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < V; k++) sum += sum_of(x[k]);
    sum = lane_sum<LANES>(sum);
    const float mean = sum * inverse;

    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < V; k++) {
        const float more = sum_of(map([=](float a) { return (a - mean) * (a - mean); }, x[k]));
        squares += share.has(k) ? more : 0.0f;
    }
    return {sum, mean, lane_sum<LANES>(squares), count};
}

// The moments of `total` elements, of which each of LANES lanes has those of some. Nothing large is
// subtracted from anything large (Chan, Golub, LeVeque: Updating formulae, 1979).
template <int LANES>
__device__ Moments merged(Moments part, float total, float inverse_of_total) {
    const float sum = lane_sum<LANES>(part.sum);
    const float mean = sum * inverse_of_total;
    const float distance = part.mean - mean;
    const float squares = lane_sum<LANES>(part.squares + part.count * distance * distance);
    return {sum, mean, squares, total};
}

// Each warp of the T threads that share a slot hands in an item; then lane i has that of warp i
// (modulo their number).
template <int T, int SLOTS, typename Item>
__device__ Item from_warps(Item item, int slot) {
    constexpr int WARPS = T / WARP;
    __shared__ Item items[SLOTS][WARPS];
    if (threadIdx.x % WARP == 0) items[slot][threadIdx.x % T / WARP] = item;
    __syncthreads();
    return items[slot][threadIdx.x % WARPS];
}

// The end of the forward pass: what a thread stores of a row.
template <typename Vec, int T, int V>
__device__ void store_normalised(float* ln_res, float* vars, float* means, const Vec (&x)[V],
                                 const Vec (&scale)[V], const Vec (&shift)[V],
                                 const Share<Vec, T, V>& share, float mean, float variance,
                                 size_t row, int hidden_dim) {
    const float rstd = rsqrtf(variance + LN_EPSILON);
    if (share.first == 0) {
        means[row] = mean;
        vars[row] = variance;
    }
    const auto normal = [=](float a, float g, float b) { return (a - mean) * rstd * g + b; };
    Vec* y = row_of<Vec>(ln_res, row, hidden_dim) + share.first;
#pragma unroll
    for (int k = 0; k < V; k++) {
        if (share.has(k)) y[k * T] = map(normal, x[k], scale[k], shift[k]);
    }
}

// Forward, for rows that fit into the registers of a block. At most 64 registers a thread for up to
// four vectors of each array, else 128: as many threads of a multiprocessor are at work.
template <typename Vec, int T, int V, int G>
__global__ void __launch_bounds__(T * G, (V <= 4 ? 1024 : 512) / (T * G))
forward_in_registers(float* ln_res, float* vars, float* means, const float* inp, const float* gamma,
                     const float* beta, int rows, int hidden_dim) {
    const unsigned group = blockIdx.x * G + threadIdx.x / T;
    const size_t row = min(group, unsigned(rows - 1));  // groups beyond the last row go along
    const Share<Vec, T, V> share(0, hidden_dim);
    const float inverse = reciprocal(hidden_dim);
    Vec x[V], scale[V], shift[V];
    share.load(x, inp, row, hidden_dim);
    share.load(scale, gamma, 0, hidden_dim);
    share.load(shift, beta, 0, hidden_dim);

    Moments moments = moments_of_warp(x, share, share.elements_of_warp());
    if constexpr (T > WARP) {
        moments = merged<T / WARP>(from_warps<T, G>(moments, threadIdx.x / T), hidden_dim, inverse);
    }
    if (group >= unsigned(rows)) return;
    store_normalised(ln_res, vars, means, x, scale, shift, share, moments.mean,
                     moments.squares * inverse, row, hidden_dim);
}

// Gradient of the input, for rows that fit into the registers of a block, or of a CLUSTER of them.
template <typename Vec, int T, int V, int G, bool CLUSTER>
__global__ void __launch_bounds__(T * G)
dinp_in_registers(float* inp_grad, const float* out_grad, const float* inp, const float* gamma,
                  const float* vars, const float* means, int rows, int hidden_dim) {
    int blocks = 1, rank = 0;
#if __CUDA_ARCH__ >= 900
    if (CLUSTER) {
        blocks = cg::this_cluster().num_blocks();
        rank = cg::this_cluster().block_rank();
        if (blocks > 1) __cluster_barrier_arrive_relaxed();
    }
#endif
    const unsigned group = blockIdx.x / blocks * G + threadIdx.x / T;
    const size_t row = min(group, unsigned(rows - 1));  // groups beyond the last row go along
    const Share<Vec, T, V> share(rank * T * V, hidden_dim);
    const float inverse = 1.0f / hidden_dim;
    Vec dxhat[V], xhat[V], scale[V];
    share.load(xhat, inp, row, hidden_dim);
    share.load(dxhat, out_grad, row, hidden_dim);
    share.load(scale, gamma, 0, hidden_dim);
    const float mean = means[row];
    const float rstd = rsqrtf(vars[row] + LN_EPSILON);

    float2 sums = {0.0f, 0.0f};  // of dxhat and of dxhat * xhat
#pragma unroll
    for (int k = 0; k < V; k++) {
        const auto product = [](float a, float b) { return a * b; };
        dxhat[k] = map(product, dxhat[k], scale[k]);
        xhat[k] = map([=](float a) { return (a - mean) * rstd; }, xhat[k]);
        sums.x += sum_of(dxhat[k]);
        sums.y += sum_of(map(product, dxhat[k], xhat[k]));
    }
    sums = {lane_sum<share.LANES>(sums.x), lane_sum<share.LANES>(sums.y)};
    if constexpr (T > WARP) {
        sums = from_warps<T, G>(sums, threadIdx.x / T);
        sums = {lane_sum<T / WARP>(sums.x), lane_sum<T / WARP>(sums.y)};
    }
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
        const auto cluster = cg::this_cluster();
        __shared__ float2 of_blocks[MAX_CLUSTER];
        cluster.barrier_wait();  // all blocks have begun: their shared memory is there
        if (threadIdx.x < blocks) *cluster.map_shared_rank(&of_blocks[rank], threadIdx.x) = sums;
        cluster.sync();
        const int lane = threadIdx.x % MAX_CLUSTER;
        sums = lane < blocks ? of_blocks[lane] : float2{};
        sums = {lane_sum<MAX_CLUSTER>(sums.x), lane_sum<MAX_CLUSTER>(sums.y)};
    }
#endif

    const float mean1 = sums.x * inverse;
    const float mean2 = sums.y * inverse;
    if (group >= unsigned(rows)) return;
    const auto gradient = [=](float d, float h) { return (d - mean1 - h * mean2) * rstd; };
    Vec* dx = row_of<Vec>(inp_grad, row, hidden_dim) + share.first;
#pragma unroll
    for (int k = 0; k < V; k++) {
        if (share.has(k)) dx[k * T] = map(gradient, dxhat[k], xhat[k]);
    }
}

// ---- Forward in clusters ------------------------------------------------------------------------
//
// A wide row makes a wide gamma and beta, too: read again for each row, they cost more than inp. So
// the clusters stay for many rows, with their part of gamma and beta in registers, and load the
// next row before they begin to wait for each other's sums of this one.
//
// A barrier of the whole cluster for each row would also wait for the stores of the row before.
// Instead, each block sends its moments to the others by stores that a barrier in the receiver's
// shared memory counts (PTX ISA: mbarrier, st.async).
#if __CUDA_ARCH__ >= 900
__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

// Counts bytes that arrive. Each use is a phase: 0, then 1, then 0 again, ...
struct ByteBarrier {
    unsigned long long state;

    __device__ void init() {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&state)));
    }
    // One thread says how many bytes will come.
    __device__ void expect(int bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                         shared_address(&state)), "r"(bytes) : "memory");
    }
    // All threads wait for them.
    __device__ void wait(int phase) {
        asm volatile(
            "{\n.reg .pred done;\nAGAIN:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@!done bra AGAIN;\n}" ::"r"(shared_address(&state)), "r"(phase) : "memory");
    }
};

// Stores an item in the shared memory of block `rank` of the cluster; that block's barrier counts.
__device__ void send(Moments& to, int rank, Moments item, ByteBarrier& barrier) {
    unsigned there, counter;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(&to)), "r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(counter) : "r"(shared_address(&barrier.state)), "r"(rank));
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
        "[%5];" ::"r"(there), "f"(item.sum), "f"(item.mean), "f"(item.squares), "f"(item.count),
        "r"(counter) : "memory");
}
#endif

template <int T, int V>
__global__ void __launch_bounds__(T, 512 / T)
forward_in_clusters(float* ln_res, float* vars, float* means, const float* inp, const float* gamma,
                    const float* beta, int rows, int hidden_dim) {
#if __CUDA_ARCH__ >= 900
    // Two sides, used in turn: one is still being read when the moments of the next row arrive.
    __shared__ Moments of_blocks[2][MAX_CLUSTER];
    __shared__ ByteBarrier exchanged[2];
    const auto cluster = cg::this_cluster();
    const int thread = threadIdx.x;
    const int blocks = cluster.num_blocks();
    const int rank = cluster.block_rank();
    const Share<float4, T, V> share(rank * T * V, hidden_dim);
    const float count = share.elements_of_warp();
    const float count_of_block = min(share.end - rank * T * V, T * V) * 4;
    const float inverse_of_block = 1.0f / count_of_block;
    const float inverse = 1.0f / hidden_dim;
    if (thread < MAX_CLUSTER) of_blocks[0][thread] = of_blocks[1][thread] = Moments{};
    if (thread == 0) {
        for (auto& barrier : exchanged) barrier.init();
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster.barrier_arrive();
    float4 x[V], next[V], scale[V], shift[V];
    share.load(scale, gamma, 0, hidden_dim);
    share.load(shift, beta, 0, hidden_dim);
    cluster.barrier_wait();

    const int step = gridDim.x / blocks;
    int row = blockIdx.x / blocks;
    share.load(next, inp, row, hidden_dim);
    for (int turn = 0; row < rows; row += step, turn++) {
#pragma unroll
        for (int k = 0; k < V; k++) x[k] = next[k];
        if (row + step < rows) share.load(next, inp, row + step, hidden_dim);

        const int side = turn % 2;
        Moments moments = from_warps<T, 2>(moments_of_warp(x, share, count), side);
        moments = merged<T / WARP>(moments, count_of_block, inverse_of_block);
        if (thread == 0) exchanged[side].expect(blocks * sizeof(Moments));
        if (thread < blocks) send(of_blocks[side][rank], thread, moments, exchanged[side]);
        exchanged[side].wait(turn / 2 % 2);
        moments = merged<MAX_CLUSTER>(of_blocks[side][thread % MAX_CLUSTER], hidden_dim, inverse);
        store_normalised(ln_res, vars, means, x, scale, shift, share, moments.mean,
                         moments.squares * inverse, row, hidden_dim);
    }
#endif
}

// ---- Gradients of gamma and beta, the sums in registers -----------------------------------------

constexpr int TILE_COLUMNS = 128;   // of a block
constexpr int TILE_THREADS = 256;

// Reads a value that nobody reads again: it leaves nothing in the L1 cache.
template <typename Vec>
__device__ Vec load_once(const Vec* from) {
#ifdef __CUDA_EMULATOR__
    return *from;
#else
    float4 v;
    if constexpr (sizeof(Vec) == sizeof(float)) {
        asm("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v.x) : "l"(from));
        return v.x;
    } else {
        asm("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
            : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
        return v;
    }
#endif
}

// The running sums of a thread, for K vectors of columns.
template <typename Vec, int K>
struct ColumnSums {
    Vec gamma[K], beta[K];

    // Adds U rows: row, row + step, ... All their loads are under way before the first is used.
    template <int U>
    __device__ void add(const float* out_grad, const float* inp, const float* vars,
                        const float* means, const int (&column)[K], unsigned row, unsigned step,
                        int hidden_dim) {
        Vec x[U][K], dy[U][K];
        float mean[U], rstd[U];
        const Vec* x_row = row_of<Vec>(inp, row, hidden_dim);
        const Vec* dy_row = row_of<Vec>(out_grad, row, hidden_dim);
        const size_t stride = size_t(step) * (hidden_dim / (sizeof(Vec) / sizeof(float)));
#pragma unroll
        for (int u = 0; u < U; u++) {
#pragma unroll
            for (int k = 0; k < K; k++) {
                x[u][k] = load_once(x_row + column[k]);
                dy[u][k] = load_once(dy_row + column[k]);
            }
            x_row += stride;
            dy_row += stride;
            mean[u] = means[row + u * step];
            rstd[u] = vars[row + u * step];
        }
#pragma unroll
        for (int u = 0; u < U; u++) {
            rstd[u] = rsqrtf(rstd[u] + LN_EPSILON);
            const auto more = [&](float sum, float d, float a) {
                return sum + d * ((a - mean[u]) * rstd[u]);
            };
#pragma unroll
            for (int k = 0; k < K; k++) {
                gamma[k] = map(more, gamma[k], dy[u][k], x[u][k]);
                beta[k] = map([](float a, float b) { return a + b; }, beta[k], dy[u][k]);
            }
        }
    }
};

// A block takes 128 columns, and of the rows its slice: every gridDim.y-th group of Y rows.
// X lanes of a warp read one row; the sums of the same columns meet in shuffles, then in shared
// memory, always in the same order. Row s of the output gets the sums of slice s.
template <typename Vec, int X>
__global__ void __launch_bounds__(TILE_THREADS, 4)  // at most 64 registers
columns_in_registers(float* gamma_grad, float* beta_grad, const float* out_grad, const float* inp,
                     const float* vars, const float* means, int rows, int hidden_dim) {
    constexpr int FLOATS = sizeof(Vec) / sizeof(float);
    constexpr int VECTORS = TILE_COLUMNS / FLOATS;  // of the tile
    constexpr int K = VECTORS / X;                  // of a thread
    constexpr int WARPS = TILE_THREADS / WARP;
    constexpr int Y = TILE_THREADS / X;
    constexpr int U = 2;
    __shared__ Vec of_warps[WARPS][2 * VECTORS];
    const int thread = threadIdx.x;
    const int vectors = hidden_dim / FLOATS;
    const int tile = blockIdx.x * VECTORS;
    int column[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        column[k] = min(tile + k * X + thread % X, vectors - 1);  // beyond the last: go along
    }

    ColumnSums<Vec, K> sums{};
    const unsigned step = gridDim.y * Y;
    unsigned row = blockIdx.y * Y + thread / X;
    for (; row + (U - 1) * step < unsigned(rows); row += U * step) {
        sums.template add<U>(out_grad, inp, vars, means, column, row, step, hidden_dim);
    }
    for (; row < unsigned(rows); row += step) {
        sums.template add<1>(out_grad, inp, vars, means, column, row, step, hidden_dim);
    }
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();  // add_slices may begin, and wait for our end
#endif

    const auto over_lanes = [](float a) {  // those that hold the same column
#pragma unroll
        for (int offset = X; offset < WARP; offset *= 2) {
            a += __shfl_xor_sync(0xffffffffu, a, offset);
        }
        return a;
    };
#pragma unroll
    for (int k = 0; k < K; k++) {
        const Vec gamma_sum = map(over_lanes, sums.gamma[k]);
        const Vec beta_sum = map(over_lanes, sums.beta[k]);
        if (thread % WARP < X) {
            of_warps[thread / WARP][k * X + thread % WARP] = gamma_sum;
            of_warps[thread / WARP][VECTORS + k * X + thread % WARP] = beta_sum;
        }
    }
    __syncthreads();
    const int sum_column = tile + thread % VECTORS;
    if (thread >= 2 * VECTORS || sum_column >= vectors) return;
    Vec sum{};
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        sum = map([](float a, float b) { return a + b; }, sum, of_warps[w][thread]);
    }
    float* to = thread < VECTORS ? gamma_grad : beta_grad;
    row_of<Vec>(to, blockIdx.y, hidden_dim)[sum_column] = sum;
}

// Adds up the sums of the slices, [slices][hidden_dim] of gamma_grad and, behind them, of beta_grad
// (blockIdx.y = 1): a block of 8 warps takes 32 columns, each warp every 8th slice.
__global__ void __launch_bounds__(8 * WARP)
add_slices(float* gamma_grad, float* beta_grad, const float* partial, int slices, int hidden_dim) {
    __shared__ float of_warps[8][WARP];
    const int lane = threadIdx.x % WARP;
    const int warp = threadIdx.x / WARP;
    const int column = blockIdx.x * WARP + lane;
    const float* from = partial + blockIdx.y * size_t(slices) * hidden_dim;
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();  // all slices are there
#endif
    float sum = 0.0f;
    if (column < hidden_dim) {
#pragma unroll 4
        for (int slice = warp; slice < slices; slice += 8) {
            sum += from[size_t(slice) * hidden_dim + column];
        }
    }
    of_warps[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= hidden_dim) return;
    for (int w = 1; w < 8; w++) sum += of_warps[w][lane];
    (blockIdx.y == 0 ? gamma_grad : beta_grad)[column] = sum;
}

// END SOLUTION
// ---- Launchers ----------------------------------------------------------------------------------

// Threads of a block that works on a row of `vectors` vectors: whole warps, 1024 at most.
static int threads_for(int vectors) {
    const int threads = (vectors + WARP - 1) / WARP * WARP;
    return threads < MAX_THREADS ? threads : MAX_THREADS;
}

// BEGIN SOLUTION
static unsigned divide_up(unsigned a, unsigned b) { return a / b + (a % b != 0); }

// With fewer rows than this, there is a multiprocessor for each, and none should share a block.
constexpr int MANY_ROWS = 128;

// A launch that needs more than <<<...>>> can say.
struct Launch : cudaLaunchConfig_t {
    cudaLaunchAttribute more = {};

    Launch(dim3 grid, int threads, cudaStream_t on) : cudaLaunchConfig_t{} {
        gridDim = grid;
        blockDim = dim3(threads);
        stream = on;
        attrs = &more;
        numAttrs = 1;
    }
    void in_clusters_of(unsigned blocks) {
        more.id = cudaLaunchAttributeClusterDimension;
        more.val.clusterDim.x = blocks;
        more.val.clusterDim.y = more.val.clusterDim.z = 1;
    }
    // Before the kernel in front has ended: the new kernel itself waits for that.
    void may_begin_early() {
        more.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        more.val.programmaticStreamSerializationAllowed = 1;
    }
};

// Whether this code was compiled for a device with clusters.
static bool has_clusters() {
    static const bool has = [] {
        cudaFuncAttributes attributes;
        return cudaFuncGetAttributes(&attributes, add_slices) == cudaSuccess &&
               attributes.ptxVersion >= 90;
    }();
    return has;
}

// For rows of up to 4 * MAX_CLUSTER * 4 * T floats. False if nothing was launched.
template <int T>
static bool launch_forward_in_clusters(float* ln_res, float* vars, float* means, const float* inp,
                                       const float* gamma, const float* beta, int rows,
                                       int hidden_dim, cudaStream_t stream) {
    constexpr int V = 4;
    const auto kernel = forward_in_clusters<T, V>;
    const unsigned blocks = divide_up(hidden_dim / 4, T * V);
    if (!has_clusters() || hidden_dim % 4 != 0 || blocks > MAX_CLUSTER) return false;
    Launch launch(dim3(blocks), T, stream);
    launch.in_clusters_of(blocks);
    int clusters = 0;  // that run at the same time
    if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch) == cudaSuccess && clusters > 0) {
        launch.gridDim.x = blocks * (clusters < rows ? clusters : rows);
        if (cudaLaunchKernelEx(&launch, kernel, ln_res, vars, means, inp, gamma, beta, rows,
                               hidden_dim) == cudaSuccess) {
            return true;
        }
    }
    cudaGetLastError();  // no failure: the kernels above need no clusters
    return false;
}

// END SOLUTION
extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
    // BEGIN SOLUTION
    const auto launch = [&](auto kernel, int threads, int rows_per_block) {
        kernel<<<divide_up(rows, rows_per_block), threads, 0, stream>>>(
            ln_res, vars, means, inp, gamma, beta, rows, hidden_dim);
    };
    const bool vectors = hidden_dim % 4 == 0;
    const bool many = rows >= MANY_ROWS;
    if (vectors && many && hidden_dim <= 4096) {
        if (hidden_dim <= 128) return launch(forward_in_registers<float4, 8, 4, 8>, 64, 8);
        if (hidden_dim <= 512) return launch(forward_in_registers<float4, 64, 2, 2>, 128, 2);
        if (hidden_dim <= 768) return launch(forward_in_registers<float4, 64, 3, 2>, 128, 2);
        if (hidden_dim <= 1024) return launch(forward_in_registers<float4, 64, 4, 2>, 128, 2);
        return launch(forward_in_registers<float4, 256, 4, 2>, 512, 2);
    }
    if (vectors && hidden_dim <= 8192) {
        return launch(forward_in_registers<float4, 256, 8, 1>, 256, 1);
    }
    if (!vectors && hidden_dim <= 1024) {
        return launch(forward_in_registers<float, 128, 8, 1>, 128, 1);
    }
    // half as many threads, and twice as many clusters, where that is enough
    const auto in_clusters = hidden_dim <= MAX_CLUSTER * 4096 ? launch_forward_in_clusters<256>
                                                              : launch_forward_in_clusters<512>;
    if (in_clusters(ln_res, vars, means, inp, gamma, beta, rows, hidden_dim, stream)) return;
    // END SOLUTION
    if (hidden_dim % 4 == 0) {
        ker_layer_norm<float4><<<rows, threads_for(hidden_dim / 4), 0, stream>>>(
            ln_res, vars, means, inp, gamma, beta, hidden_dim);
    } else {
        ker_layer_norm<float><<<rows, threads_for(hidden_dim), 0, stream>>>(
            ln_res, vars, means, inp, gamma, beta, hidden_dim);
    }
}

// BEGIN SOLUTION
// Space for `count` floats that nobody else uses; nullptr if there is none. Free it on the stream.
static float* scratch(size_t count, cudaStream_t stream) {
    static const bool kept = [] {  // by the pool: else each synchronisation gives it back
        int device = 0;
        cudaMemPool_t pool;
        unsigned long long all = ~0ull;
        return cudaGetDevice(&device) == cudaSuccess &&
               cudaDeviceGetDefaultMemPool(&pool, device) == cudaSuccess &&
               cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all) == cudaSuccess;
    }();
    float* space = nullptr;
    if (kept && cudaMallocAsync(&space, count * sizeof(float), stream) == cudaSuccess) return space;
    cudaGetLastError();  // no failure: a single slice needs no scratch memory
    return nullptr;
}

template <typename Vec, int X>
static void launch_columns(float* gamma_grad, float* beta_grad, const float* out_grad,
                           const float* inp, const float* vars, const float* means, int rows,
                           int hidden_dim, cudaStream_t stream) {
    const auto kernel = columns_in_registers<Vec, X>;
    const unsigned enough_blocks = 264;  // two for each multiprocessor of an H200
    const unsigned tiles = divide_up(hidden_dim, TILE_COLUMNS);
    const unsigned most = rows / (TILE_THREADS / X);  // a row a thread or more
    const unsigned wanted = divide_up(enough_blocks, tiles);
    const unsigned slices = wanted < most ? wanted : most;
    const size_t count = size_t(slices) * hidden_dim;
    float* partial = slices > 1 ? scratch(2 * count, stream) : nullptr;
    if (partial == nullptr) {
        kernel<<<tiles, TILE_THREADS, 0, stream>>>(gamma_grad, beta_grad, out_grad, inp, vars,
                                                   means, rows, hidden_dim);
        return;
    }
    kernel<<<dim3(tiles, slices), TILE_THREADS, 0, stream>>>(
        partial, partial + count, out_grad, inp, vars, means, rows, hidden_dim);
    const dim3 grid(divide_up(hidden_dim, WARP), 2);
    if (has_clusters()) {  // and so has launches that begin early
        Launch early(grid, 8 * WARP, stream);
        early.may_begin_early();
        const float* from = partial;
        cudaLaunchKernelEx(&early, add_slices, gamma_grad, beta_grad, from, slices, hidden_dim);
    } else {
        add_slices<<<grid, 8 * WARP, 0, stream>>>(gamma_grad, beta_grad, partial, slices,
                                                  hidden_dim);
    }
    cudaFreeAsync(partial, stream);
}

// END SOLUTION
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
    if (rows >= 64 || hidden_dim > 16384) {  // below, a launch takes longer than the memory
        (hidden_dim % 4 == 0 ? launch_columns<float4, 16> : launch_columns<float, 32>)(
            gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim, stream);
        return;
    }
    // END SOLUTION
    ker_ln_bw_dgamma_dbetta<<<dim3(tiles, 1), block, 0, stream>>>(
        gamma_grad, beta_grad, out_grad, inp, vars, means, rows, hidden_dim);
}

extern "C" void launch_ln_bw_dinp(float* inp_grad, const float* out_grad, const float* inp,
                                  const float* gamma, const float* vars, const float* means,
                                  int rows, int hidden_dim, cudaStream_t stream) {
    // BEGIN SOLUTION
    const auto launch = [&](auto kernel, int threads, int rows_per_block) {
        kernel<<<divide_up(rows, rows_per_block), threads, 0, stream>>>(
            inp_grad, out_grad, inp, gamma, vars, means, rows, hidden_dim);
    };
    const bool vectors = hidden_dim % 4 == 0;
    const bool many = rows >= MANY_ROWS;
    if (vectors && many && hidden_dim <= 1024) {
        if (hidden_dim <= 128) return launch(dinp_in_registers<float4, 32, 1, 8, false>, 256, 8);
        if (hidden_dim <= 512) return launch(dinp_in_registers<float4, 128, 1, 2, false>, 256, 2);
        return launch(dinp_in_registers<float4, 128, 2, 2, false>, 256, 2);
    }
    if (vectors && hidden_dim <= 4096) {
        return launch(dinp_in_registers<float4, 256, 4, 1, false>, 256, 1);
    }
    if (!vectors && hidden_dim <= 1024) {
        return launch(dinp_in_registers<float, 128, 8, 1, false>, 128, 1);
    }
    const auto in_clusters = dinp_in_registers<float4, 256, 8, 1, true>;
    const unsigned blocks = divide_up(hidden_dim, 8192);  // of a cluster, for each row
    if (vectors && blocks == 1) return launch(in_clusters, 256, 1);
    if (vectors && blocks <= MAX_CLUSTER && has_clusters()) {
        Launch clusters(dim3(rows * blocks), 256, stream);
        clusters.in_clusters_of(blocks);
        if (cudaLaunchKernelEx(&clusters, in_clusters, inp_grad, out_grad, inp, gamma, vars, means,
                               rows, hidden_dim) == cudaSuccess) {
            return;
        }
        cudaGetLastError();  // no failure: the kernel above needs no clusters
    }
    // END SOLUTION
    if (hidden_dim % 4 == 0) {
        ker_ln_bw_dinp<float4><<<rows, threads_for(hidden_dim / 4), 0, stream>>>(
            inp_grad, out_grad, inp, gamma, vars, means, hidden_dim);
    } else {
        ker_ln_bw_dinp<float><<<rows, threads_for(hidden_dim), 0, stream>>>(
            inp_grad, out_grad, inp, gamma, vars, means, hidden_dim);
    }
}
