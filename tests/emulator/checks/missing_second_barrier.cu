// The array is used again while slow threads still read the first sums.
__device__ float sum(float v) {
    __shared__ float s[2];
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;  // expect: error race_shared
    __syncthreads();
    return s[0] + s[1];  // expect: error race_shared, error race_warp
}
__global__ void twice(float* x) {
    float a = sum(threadIdx.x);
    float b = sum(a + threadIdx.x);
    x[threadIdx.x] = a + b;
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    twice<<<1, 64>>>(x);
    cudaDeviceSynchronize();
}
