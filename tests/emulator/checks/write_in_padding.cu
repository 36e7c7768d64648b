__global__ void fill(float* out, int n) {
    for (int i = threadIdx.x; i <= n; i += blockDim.x)
        out[i] = 1.0f;  // expect: error out_of_bounds
}

int main() {
    float* out;
    cudaMalloc(&out, 100 * sizeof(float));
    fill<<<1, 32>>>(out, 100);
    cudaDeviceSynchronize();
}
