// Lanes of a warp do not run in lock-step.
__global__ void tree(float* x) {
    __shared__ volatile float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    if (threadIdx.x < 16) {
        s[threadIdx.x] += s[threadIdx.x + 16];  // expect: error race_warp
        s[threadIdx.x] += s[threadIdx.x + 8];
        __syncwarp(0xffff);
    }
    __syncwarp();
    x[threadIdx.x] = s[threadIdx.x];
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    tree<<<1, 32>>>(x);
    cudaDeviceSynchronize();
}
