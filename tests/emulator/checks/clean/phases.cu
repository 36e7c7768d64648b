// Shared memory that is used again and again, always behind a barrier.
__device__ float block_sum(float v) {
    __shared__ float s[32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? s[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32) {
        for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
        if (threadIdx.x == 0) s[0] = v;
    }
    __syncthreads();
    return s[0];
}
__global__ void rows(const float* x, float* out, int columns) {
    extern __shared__ float row[];
    for (int r = blockIdx.x; r < 10; r += gridDim.x) {
        float sum = 0.0f;
        for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c] = x[r * columns + c];
        float mean = block_sum(sum) / columns;
        float squares = 0.0f;
        for (int c = threadIdx.x; c < columns; c += blockDim.x) squares += (row[c] - mean) * (row[c] - mean);
        float scale = rsqrtf(block_sum(squares) / columns + 1e-5f);
        for (int c = threadIdx.x; c < columns; c += blockDim.x) out[r * columns + c] = (row[columns - 1 - c] - mean) * scale;
        __syncthreads();
    }
}
__global__ void transpose(const float* x, float* out) {
    __shared__ float tile[32][33];
    for (int y = threadIdx.y; y < 32; y += blockDim.y) tile[y][threadIdx.x] = x[y * 32 + threadIdx.x];
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += blockDim.y) out[y * 32 + threadIdx.x] = tile[threadIdx.x][y];
}
__global__ void two_buffers(const float* x, float* out) {
    __shared__ float buffer[2][64];
    buffer[0][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 5; i++) {
        buffer[(i + 1) % 2][threadIdx.x] = buffer[i % 2][63 - threadIdx.x] + 1.0f;
        __syncthreads();
    }
    out[threadIdx.x] = buffer[1][threadIdx.x];
}
int main() {
    float *x, *out;
    cudaMalloc(&x, 10 * 257 * sizeof(float));
    cudaMalloc(&out, 10 * 257 * sizeof(float));
    cudaMemset(x, 0, 10 * 257 * sizeof(float));
    rows<<<3, 128, 257 * sizeof(float)>>>(x, out, 257);
    transpose<<<1, dim3(32, 8)>>>(x, out);
    two_buffers<<<1, 64>>>(x, out);
    cudaDeviceSynchronize();
}
