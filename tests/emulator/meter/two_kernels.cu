// What one kernel leaves in L2 the next one finds there. L2 has 64 KB.
// machine: l2_bytes=65536

// 16 KB to read and 16 KB to write, nothing known before.
// expect first: dram_read_sectors = 512, unique_read_sectors = 512
__global__ void first(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i];
}

// Everything that was touched, 32 KB, fits.
// expect second: dram_read_sectors = 0, unique_read_sectors = 512, l2_hit_sectors = 512
__global__ void second(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i] + 1;
}

// 128 KB go through.
// expect sweep: dram_read_sectors = 4096
__global__ void sweep(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (inp[i] == 12345) out[i] = 0;
}

// They have pushed out what was there before.
// expect third: dram_read_sectors = 512
__global__ void third(float* out, const float* inp) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = inp[i] + 1;
}

int main() {
    float *a, *b, *c, *big;
    cudaMalloc(&a, 4096 * sizeof(float));
    cudaMalloc(&b, 4096 * sizeof(float));
    cudaMalloc(&c, 4096 * sizeof(float));
    cudaMalloc(&big, 32768 * sizeof(float));
    first<<<16, 256>>>(b, a);
    second<<<16, 256>>>(c, b);
    sweep<<<128, 256>>>(c, big);
    third<<<16, 256>>>(c, b);
    return cudaDeviceSynchronize();
}
