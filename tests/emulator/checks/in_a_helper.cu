// The line is the helper's; what called it is named, too.
__device__ __forceinline__ float at(const float* x, int i) {
    return x[i];  // expect: error out_of_bounds
}
__global__ void sum(const float* x, float* out) {
    out[threadIdx.x] = at(x, threadIdx.x + 1);
}

int main() {
    float *x, *out;
    cudaMalloc(&x, 32 * sizeof(float));
    cudaMemset(x, 0, 32 * sizeof(float));
    cudaMalloc(&out, 32 * sizeof(float));
    sum<<<1, 32>>>(x, out);
    cudaDeviceSynchronize();
}
