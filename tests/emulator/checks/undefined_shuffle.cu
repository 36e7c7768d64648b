__global__ void k(float* x) {
    float v = x[threadIdx.x];
    if (threadIdx.x < 20) v += __shfl_down_sync(0xfffff, v, 4);  // expect: warning undefined_shuffle
    x[threadIdx.x] = v;
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    k<<<1, 32>>>(x);
    cudaDeviceSynchronize();
}
