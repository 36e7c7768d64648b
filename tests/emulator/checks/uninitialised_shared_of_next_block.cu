// What an earlier block left there does not count.
__global__ void accumulate(float* out) {
    extern __shared__ float s[];
    if (blockIdx.x == 0) s[threadIdx.x] = 0.0f;
    s[threadIdx.x] += 1.0f;  // expect: error uninitialised_shared
    out[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
}

int main() {
    float* out;
    cudaMalloc(&out, 256);
    accumulate<<<2, 32, 128>>>(out);
    cudaDeviceSynchronize();
}
