// Blocks that are resident together share a cache. 4 blocks on 1 multiprocessor, each reads its own 16 KB
// twice. L1 has 56 KB, of which shared memory takes 8 for what the system needs of each block.
// machine: sms=1 l1_bytes=57344 l2_bytes=1048576

// A block of 1024 threads leaves room for one more. Two blocks keep their 32 KB in L1 until they
// read them again; then come the other two.
// expect large_blocks: l1_hit_sectors > 1800, l2_read_sectors < 2296
__global__ void large_blocks(float* out, const float* inp) {
    float sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = threadIdx.x; i < 4096; i += 1024) sum += inp[blockIdx.x * 4096 + i];
        __syncthreads();
    }
    if (sum == 12345) out[0] = sum;
}

// All four blocks of 256 threads are there at once: 64 KB go round in 48, and much is gone when
// it is wanted again.
// expect small_blocks: l1_hit_sectors < 1000, l2_read_sectors > 3096
__global__ void small_blocks(float* out, const float* inp) {
    float sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = threadIdx.x; i < 4096; i += 256) sum += inp[blockIdx.x * 4096 + i];
        __syncthreads();
    }
    if (sum == 12345) out[0] = sum;
}

int main() {
    float *inp, *out;
    cudaMalloc(&inp, 4 * 4096 * sizeof(float));
    cudaMalloc(&out, sizeof(float));
    large_blocks<<<4, 1024>>>(out, inp);
    small_blocks<<<4, 256>>>(out, inp);
    return cudaDeviceSynchronize();
}
