__global__ void saxpy(float4* out, const float4* x, const float4* y, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const float4 a = x[i], b = y[i];
        out[i] = make_float4(SAXPY_A * a.x + b.x, SAXPY_A * a.y + b.y, SAXPY_A * a.z + b.z,
                             SAXPY_A * a.w + b.w);
    }
}

void launch_saxpy(float* out, const float* x, const float* y, int n, cudaStream_t stream) {
    if (n < 4) {
        return;
    }
    saxpy<<<(n / 4 + 255) / 256, 256, 0, stream>>>((float4*)out, (const float4*)x,
                                                   (const float4*)y, n / 4);
}
