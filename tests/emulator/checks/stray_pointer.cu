// The address of a thread's own variable means nothing to another thread.
__global__ void exchange(float* x) {
    __shared__ float* shared;
    float mine = threadIdx.x;
    if (threadIdx.x == 0) shared = &mine;
    __syncthreads();
    if (threadIdx.x == 1) *shared = 5.0f;  // expect: error stray_write
    __syncthreads();
    x[threadIdx.x] = mine;
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    exchange<<<1, 32>>>(x);
    cudaDeviceSynchronize();
}
