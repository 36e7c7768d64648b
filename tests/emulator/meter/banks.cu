// Waves of shared memory: passes over its 32 banks of 4 bytes. Every kernel runs 1 block of 32 threads,
// one warp, unless its launch says more.

// One word in each bank.
// expect neighbours: shared_store_requests = 1, shared_store_waves = 1, shared_store_ideal_waves = 1
// expect neighbours: shared_load_requests = 1, shared_load_waves = 1, shared_load_ideal_waves = 1
__global__ void neighbours(float* out) {
    __shared__ float s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[31 - threadIdx.x];
}

// Lanes l and l + 16 want words 64 apart, in the same bank.
// expect every_second: shared_load_requests = 1, shared_load_waves = 2, shared_load_ideal_waves = 1
__global__ void every_second(float* out) {
    __shared__ float s[64];
    s[threadIdx.x] = s[threadIdx.x + 32] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[2 * threadIdx.x];
}

// A column of a tile with 32 words a row: all in one bank.
// expect column: shared_load_requests = 1, shared_load_waves = 32, shared_load_ideal_waves = 1
// The rows are stored without conflicts.
// expect column: shared_store_requests = 32, shared_store_waves = 32, shared_store_ideal_waves = 32
__global__ void column(float* out) {
    __shared__ float s[32][32];
    for (int row = 0; row < 32; row++) s[row][threadIdx.x] = row;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x][0];
}

// With 33 words a row the column goes through all banks.
// expect padded_column: shared_load_requests = 1, shared_load_waves = 1, shared_load_ideal_waves = 1
__global__ void padded_column(float* out) {
    __shared__ float s[32][33];
    for (int row = 0; row < 32; row++) s[row][threadIdx.x] = row;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x][0];
}

// All lanes want one word: it is read once.
// expect same_word: shared_load_requests = 1, shared_load_waves = 1, shared_load_ideal_waves = 1
__global__ void same_word(float* out) {
    __shared__ float s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[7];
}

// The warp's 256 bytes of doubles are two passes, its 512 bytes of float4 four.
// expect wide: shared_store_requests = 2, shared_store_waves = 6, shared_store_ideal_waves = 6
// expect wide: shared_load_requests = 2, shared_load_waves = 6, shared_load_ideal_waves = 6
__global__ void wide(float4* out, const float4* inp) {
    __shared__ double d[32];
    __shared__ float4 f[32];
    d[threadIdx.x] = threadIdx.x;
    f[threadIdx.x] = inp[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = f[31 - threadIdx.x];
    if (d[threadIdx.x] < 0) out[0] = inp[0];
}

// All lanes want the same 16 bytes: a pass for each half of the warp. So it is on an H200.
// expect same_vector: shared_load_requests = 1, shared_load_waves = 2, shared_load_ideal_waves = 2
__global__ void same_vector(float4* out, const float4* inp) {
    __shared__ float4 f[32];
    f[threadIdx.x] = inp[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = f[5];
}

// Lanes t and t + 4 want the same 16 bytes: 64 bytes for each half of the warp, in a pass each. With 8
// vectors it is 128 bytes, and each quarter goes by itself.
// expect four_vectors: shared_load_waves = 2, shared_load_ideal_waves = 2
// expect eight_vectors: shared_load_waves = 4, shared_load_ideal_waves = 4
__global__ void four_vectors(float4* out, const float4* inp) {
    __shared__ float4 f[32];
    f[threadIdx.x] = inp[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = f[threadIdx.x % 4];
}
__global__ void eight_vectors(float4* out, const float4* inp) {
    __shared__ float4 f[32];
    f[threadIdx.x] = inp[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = f[threadIdx.x % 8];
}

// 512 floats of dynamic memory, 8 warps: each warp stores and loads a row twice.
// expect dynamic: shared_store_requests = 16, shared_store_waves = 16
// expect dynamic: shared_load_requests = 16, shared_load_waves = 16
// expect dynamic: block_barriers = 1, warp_barriers = 8
__global__ void dynamic(float* out) {
    extern __shared__ float d[];
    for (int i = threadIdx.x; i < 512; i += 256) d[i] = i;
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < 512; i += 256) sum += d[511 - i];
    out[threadIdx.x] = sum;
}

int main() {
    float *out, *inp;
    cudaMalloc(&out, 256 * sizeof(float));
    cudaMalloc(&inp, 256 * sizeof(float));
    neighbours<<<1, 32>>>(out);
    every_second<<<1, 32>>>(out);
    column<<<1, 32>>>(out);
    padded_column<<<1, 32>>>(out);
    same_word<<<1, 32>>>(out);
    wide<<<1, 32>>>((float4*)out, (float4*)inp);
    same_vector<<<1, 32>>>((float4*)out, (float4*)inp);
    four_vectors<<<1, 32>>>((float4*)out, (float4*)inp);
    eight_vectors<<<1, 32>>>((float4*)out, (float4*)inp);
    dynamic<<<1, 256, 512 * sizeof(float)>>>(out);
    return cudaDeviceSynchronize();
}
