__global__ void saxpy(float* out, const float* x, const float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = SAXPY_A * x[i] + y[i] + 1.0e-3f;
    }
}

void launch_saxpy(float* out, const float* x, const float* y, int n, cudaStream_t stream) {
    saxpy<<<(n + 255) / 256, 256, 0, stream>>>(out, x, y, n);
}
