__global__ void fill(float* x) {
    x[threadIdx.x] = 1.0f;  // expect: error illegal_address
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    cudaFree(x);
    fill<<<1, 32>>>(x);
    cudaDeviceSynchronize();
}
