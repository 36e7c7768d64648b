// Every block does the same with data of its own: a sample, scaled up, tells exactly what all blocks do.
// sample: 20

// 2000 blocks of 64 threads; a row of 256 floats each, read twice and written once.
// expect rows: threads = 128000, warps = 4000, block_barriers = 2000, warp_barriers = 4000
// expect rows: global_load_requests = 32000, global_load_sectors = 128000, global_load_ideal_sectors = 128000
// expect rows: global_store_requests = 16000, l1_hit_sectors = 64000, l2_read_sectors = 64000
// expect rows: unique_read_sectors = 64000, unique_written_sectors = 64000, dram_read_sectors = 64000
// expect rows: shared_store_requests = 4000, shared_load_requests = 4000
__global__ void rows(float* out, const float* inp) {
    __shared__ float sums[64];
    float sum = 0;
    for (int i = threadIdx.x; i < 256; i += 64) sum += inp[blockIdx.x * 256 + i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    sum = sums[63 - threadIdx.x];
    for (int i = threadIdx.x; i < 256; i += 64) out[blockIdx.x * 256 + i] = inp[blockIdx.x * 256 + i] - sum;
}

// All blocks read the same 256 floats: a sample is not scaled up to more than there is.
// expect weights: global_load_requests = 8000, global_load_sectors = 32000
// expect weights: unique_read_sectors = 32, dram_read_sectors = 32
__global__ void weights(float* out, const float* w) {
    float sum = 0;
    for (int i = threadIdx.x; i < 256; i += 64) sum += w[i];
    if (sum == 12345) out[0] = sum;
}

int main() {
    float *inp, *out, *w;
    cudaMalloc(&inp, 2000 * 256 * sizeof(float));
    cudaMalloc(&out, 2000 * 256 * sizeof(float));
    cudaMalloc(&w, 256 * sizeof(float));
    rows<<<2000, 64>>>(out, inp);
    weights<<<1000, 64>>>(out, w);
    return cudaDeviceSynchronize();
}
