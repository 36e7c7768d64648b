__global__ void saxpy(float* out, const float* x, const float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = SAXPY_A * x[i] + y[i];
    }
}
