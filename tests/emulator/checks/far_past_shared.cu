// Far beyond a shared array lies what the program needs to go on, so the kernel ends.
__global__ void fill(float* out, int n) {
    __shared__ float s[16];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        s[i] = 0.5f;  // expect: error out_of_bounds, error illegal_address
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x % 16];
}
int main() {
    float* out;
    cudaMalloc(&out, 128);
    fill<<<1, 32>>>(out, 100000);
    cudaDeviceSynchronize();
}
