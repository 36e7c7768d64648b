// 250 floats are padded to 1024 bytes: nothing else would notice.
__global__ void sum(const float* x, float* out) {
    out[threadIdx.x] = x[threadIdx.x];  // expect: error out_of_bounds
}

int main() {
    float *x, *out;
    cudaMalloc(&x, 250 * sizeof(float));
    cudaMemset(x, 0, 250 * sizeof(float));
    cudaMalloc(&out, 256 * sizeof(float));
    sum<<<1, 251>>>(x, out);
    cudaDeviceSynchronize();
}
