// CUB's collectives as students use them: reductions and scans of warps and blocks.
#include <cstdio>
#include <cub/cub.cuh>
#include <cuda/functional>
#include <cuda/std/functional>

__device__ int errors;
__device__ int first_line;
__device__ void check(bool ok, int line) {
    if (!ok && atomicAdd(&errors, 1) == 0) first_line = line;
}
#define CHECK(condition) check(condition, __LINE__)

struct Moments {
    float sum, squares;
    Moments() = default;
    __device__ Moments(float s, float q) : sum(s), squares(q) {}
};
struct AddMoments {
    __device__ Moments operator()(const Moments& a, const Moments& b) const {
        return Moments(a.sum + b.sum, a.squares + b.squares);
    }
};

template <int Threads>
__global__ void block(int valid) {
    using Reduce = cub::BlockReduce<float, Threads>;
    using Warps = cub::BlockReduce<int, Threads, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
    using Scan = cub::BlockScan<int, Threads>;
    using Structs = cub::BlockReduce<Moments, Threads>;
    __shared__ union {
        typename Reduce::TempStorage reduce;
        typename Scan::TempStorage scan;
    } storage;
    __shared__ typename Warps::TempStorage warps;
    __shared__ typename Structs::TempStorage structs;
    int t = threadIdx.x;

    float total = Reduce(storage.reduce).Sum(1.5f);
    if (t == 0) CHECK(total == 1.5f * Threads);
    int largest = Warps(warps).Reduce(t, cuda::maximum<>{});
    if (t == 0) CHECK(largest == Threads - 1);
    __syncthreads();
    int smallest = Warps(warps).Reduce(t - 50, cuda::minimum<int>{});
    if (t == 0) CHECK(smallest == -50);
    __syncthreads();
    float some = Reduce(storage.reduce).Sum(1.f, valid);
    if (t == 0) CHECK(some == valid);
    __syncthreads();
    float items[4] = {1, 2, 3, 4};
    float all = Reduce(storage.reduce).Sum(items);
    if (t == 0) CHECK(all == 10.f * Threads);
    Moments moments = Structs(structs).Reduce(Moments(1.f, 2.f), AddMoments());
    if (t == 0) CHECK(moments.sum == Threads && moments.squares == 2 * Threads);
    __syncthreads();

    int inclusive, exclusive, aggregate;
    Scan(storage.scan).InclusiveSum(1, inclusive);
    CHECK(inclusive == t + 1);
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(t, exclusive, aggregate);
    CHECK(exclusive == t * (t - 1) / 2 && aggregate == Threads * (Threads - 1) / 2);
    __syncthreads();
    Scan(storage.scan).InclusiveScan(t % 7, inclusive, cuda::maximum<>{});
    CHECK(inclusive == (t < 6 ? t : 6));
    __syncthreads();
    int four[4] = {1, 2, 3, 4}, sums[4];
    Scan(storage.scan).InclusiveSum(four, sums);
    CHECK(sums[0] == 10 * t + 1 && sums[3] == 10 * t + 10);
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(four, four);
    CHECK(four[0] == 10 * t && four[2] == 10 * t + 3);
}

__global__ void two_dimensions() {
    using Reduce = cub::BlockReduce<int, 16, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 4, 2>;
    __shared__ typename Reduce::TempStorage storage;
    int total = Reduce(storage).Reduce(1, [](int a, int b) { return a + b; });
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) CHECK(total == 128);
}

__global__ void warp() {
    using Reduce = cub::WarpReduce<float>;
    using Half = cub::WarpReduce<int, 16>;
    using Scan = cub::WarpScan<int>;
    __shared__ typename Reduce::TempStorage reduce[4];
    __shared__ typename Half::TempStorage half[8];
    __shared__ typename Scan::TempStorage scan[4];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    float total = Reduce(reduce[warp]).Sum(lane);
    if (lane == 0) CHECK(total == 496.f);
    int largest = Half(half[t / 16]).Reduce(t, cuda::maximum<>{});
    if (t % 16 == 0) CHECK(largest == t + 15);
    int inclusive, exclusive;
    Scan(scan[warp]).InclusiveSum(1, inclusive);
    Scan(scan[warp]).ExclusiveSum(2, exclusive);
    CHECK(inclusive == lane + 1 && exclusive == 2 * lane);
    // one warp alone
    if (warp == 0) {
        float value = Reduce(reduce[0]).Reduce(1.f, cuda::std::plus<>{});
        if (lane == 0) CHECK(value == 32.f);
    }
}

int main() {
    block<256><<<2, 256>>>(77);
    block<64><<<1, 64>>>(64);
    two_dimensions<<<1, dim3(16, 4, 2)>>>();
    warp<<<1, 128>>>();
    cudaError_t error = cudaDeviceSynchronize();
    int count = -1, line = 0;
    cudaMemcpyFromSymbol(&count, errors, sizeof(int));
    cudaMemcpyFromSymbol(&line, first_line, sizeof(int));
    if (error != cudaSuccess || count != 0) {
        printf("failed: %s, %d errors, line %d\n", cudaGetErrorString(error), count, line);
        return 1;
    }
    puts("ok");
    return 0;
}
