__global__ void exchange(float* x) {
    __shared__ float* shared;
    float mine = threadIdx.x;
    if (threadIdx.x == 0) shared = &mine;
    __syncthreads();
    x[threadIdx.x] = mine + *shared;  // expect: error stray_read
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    exchange<<<1, 32>>>(x);
    cudaDeviceSynchronize();
}
