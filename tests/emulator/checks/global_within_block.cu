__global__ void reverse(float* x) {
    x[threadIdx.x] = threadIdx.x;    // expect: error race_global
    float v = x[63 - threadIdx.x];  // expect: error race_global
    __syncthreads();
    x[threadIdx.x] = v;
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    reverse<<<1, 64>>>(x);
    cudaDeviceSynchronize();
}
