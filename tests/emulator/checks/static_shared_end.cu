__global__ void reverse(float* out) {
    __shared__ float s[64], other[64];
    s[threadIdx.x] = other[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[64 - threadIdx.x] + other[threadIdx.x];  // expect: error out_of_bounds
}

int main() {
    float* out;
    cudaMalloc(&out, 256);
    reverse<<<1, 64>>>(out);
    cudaDeviceSynchronize();
}
