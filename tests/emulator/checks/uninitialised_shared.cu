__global__ void sum(float* out) {
    __shared__ float s[32];
    if (threadIdx.x < 8) s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    float v = s[threadIdx.x];  // expect: error uninitialised_shared
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
    out[threadIdx.x] = v;
}

int main() {
    float* out;
    cudaMalloc(&out, 128);
    sum<<<1, 32>>>(out);
    cudaDeviceSynchronize();
}
