// The thread that counts has passed a fence, the others have not, and their writes come after it.
__device__ unsigned finished;
__global__ void total(float* parts, float* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) __threadfence();
    __syncthreads();
    parts[blockIdx.x * 64 + threadIdx.x] = 1.0f;
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&finished, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    float sum = 0.0f;
    for (int i = 0; i < gridDim.x; i++) sum += parts[i * 64 + threadIdx.x];  // expect: error race_blocks
    out[threadIdx.x] = sum;
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    total<<<3, 64>>>(x, x + 192);
    cudaDeviceSynchronize();
}
