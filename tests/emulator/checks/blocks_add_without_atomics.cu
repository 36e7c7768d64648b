__global__ void add(float* total) {
    if (threadIdx.x == 0) *total += 1.0f;  // expect: error race_blocks
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    add<<<8, 32>>>(x);
    cudaDeviceSynchronize();
}
