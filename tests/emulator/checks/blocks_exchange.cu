// A block reads what the one before it has written.
__global__ void shift(float* x) {
    x[blockIdx.x] = blockIdx.x;
    if (blockIdx.x > 0) x[100 + blockIdx.x] = x[blockIdx.x - 1];  // expect: error race_blocks
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    shift<<<8, 1>>>(x);
    cudaDeviceSynchronize();
}
