__global__ void shift(float* out) {
    __shared__ int other[64];
    __shared__ float s[64];
    other[threadIdx.x] = 0;
    s[static_cast<int>(threadIdx.x) - 1] = 1.0f;  // expect: error out_of_bounds
    __syncthreads();
    if (threadIdx.x < 63) out[threadIdx.x] = s[threadIdx.x] + other[threadIdx.x];
}

int main() {
    float* out;
    cudaMalloc(&out, 256);
    shift<<<1, 64>>>(out);
    cudaDeviceSynchronize();
}
