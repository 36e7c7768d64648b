// Nothing makes the partial sums visible before the counter.
__device__ unsigned finished;
__global__ void total(float* parts, float* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x;
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = 0; i < gridDim.x; i++) sum += parts[i];  // expect: error race_blocks
        *out = sum;
    }
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    total<<<8, 32>>>(x, x + 100);
    cudaDeviceSynchronize();
}
