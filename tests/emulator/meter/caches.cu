// What the caches answer, on a machine with an L2 of 64 KB and an L1 of 32 KB.
// machine: l2_bytes=65536 l1_bytes=32768

// 16 KB, read twice by one block: the second time all 512 sectors come from L1.
// expect again: global_load_sectors = 1024, l1_hit_sectors = 512, l2_read_sectors = 512
// expect again: dram_read_sectors = 512, unique_read_sectors = 512
__global__ void again(float* out, const float* inp) {
    float sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = threadIdx.x; i < 4096; i += 256) sum += inp[i];
    }
    out[threadIdx.x] = sum;
}

// The same by two blocks on two multiprocessors: each has an L1 of its own, and L2 answers one of them.
// expect both: global_load_sectors = 1024, l1_hit_sectors = 0, l2_read_sectors = 1024
// expect both: l2_hit_sectors = 512, dram_read_sectors = 512
__global__ void both(float* out, const float* inp) {
    float sum = 0;
    for (int i = threadIdx.x; i < 4096; i += 256) sum += inp[i];
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}

// 128 KB, read twice in the same order: when it comes round again, the start has left L2. (L1 keeps a
// little of it by chance.)
// expect too_large: global_load_sectors = 8192, unique_read_sectors = 4096
// expect too_large: dram_read_sectors > 7700
__global__ void too_large(float* out, const float* inp) {
    float sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = threadIdx.x; i < 32768; i += 256) sum += inp[i];
    }
    out[threadIdx.x] = sum;
}

// 128 KB written: 64 KB of it leave L2, the rest is there when the kernel ends.
// expect fill: dram_write_sectors = 2048, dirty_sectors_left = 2048, unique_written_sectors = 4096
// What is written needs not be read.
// expect fill: dram_read_sectors = 0
__global__ void fill(float* out) {
    for (int i = threadIdx.x; i < 32768; i += 256) out[i] = 1;
}

int main() {
    float *a, *b, *c;
    cudaMalloc(&a, 32768 * sizeof(float));
    cudaMalloc(&b, 32768 * sizeof(float));
    cudaMalloc(&c, 512 * sizeof(float));
    again<<<1, 256>>>(c, a);
    too_large<<<1, 256>>>(c, b);
    both<<<2, 256>>>(c, a);
    fill<<<1, 256>>>(b);
    return cudaDeviceSynchronize();
}
