__global__ void sums(float* out) {
    extern __shared__ float s[];
    s[threadIdx.x / 8] = 1.0f;  // expect: error out_of_bounds, warning same_value_race
    __syncthreads();
    if (threadIdx.x < 7) out[threadIdx.x] = s[threadIdx.x];
}

int main() {
    float* out;
    cudaMalloc(&out, 256);
    sums<<<1, 64, 7 * sizeof(float)>>>(out);
    cudaDeviceSynchronize();
}
