// Barriers, warp operations, and the requests between them. 2 blocks of 96 threads: 6 warps.

// 5 shuffles of each warp; 1 vote; 1 __syncwarp; 2 barriers of each block, of 3 warps each.
// expect operations: shuffles = 30, votes = 6, warp_synchronisations = 6
// expect operations: block_barriers = 4, warp_barriers = 12, busiest_block_barriers = 2
// The loads before and after the operations are two rounds of one request each.
// expect operations: global_load_requests = 12, busiest_warp_load_requests = 2, busiest_warp_load_rounds = 2
__global__ void operations(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = inp[i];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    __syncthreads();
    if (__any_sync(0xffffffff, value > 100)) value = 0;
    __syncwarp();
    value += inp[i + 192];
    __syncthreads();
    out[i] = value;
}

// Lanes go different numbers of rounds, 1 to 4: 10 lane-loads of groups of 8. The k-th loads of the
// lanes are together: 4 requests with 32, 24, 16 and 8 lanes, of 4, 3, 2 and 1 sectors.
// expect uneven: global_load_requests = 24, global_load_sectors = 60, global_load_ideal_sectors = 60
__global__ void uneven(float* out, const float* inp) {
    float sum = 0;
    int lane = threadIdx.x % 32;
    for (int k = 0; k <= 3 - lane / 8; k++) sum += inp[32 * k + lane];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Two branches are two instructions: a request of 16 lanes each, of 2 sectors.
// expect branches: global_load_requests = 12, global_load_sectors = 24
// They come together for the store.
// expect branches: global_store_requests = 6
__global__ void branches(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = threadIdx.x % 32 < 16 ? inp[i] + 1 : inp[i + 192] * 2;
    out[i] = value;
}

int main() {
    float *a, *b;
    cudaMalloc(&a, 384 * sizeof(float));
    cudaMalloc(&b, 192 * sizeof(float));
    operations<<<2, 96>>>(b, a);
    uneven<<<2, 96>>>(b, a);
    branches<<<2, 96>>>(b, a);
    return cudaDeviceSynchronize();
}
