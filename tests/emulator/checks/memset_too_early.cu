__global__ void fill(float* x) {
    x[threadIdx.x] = 1.0f;
}
__global__ void twice(float* x) {
    x[threadIdx.x] *= 2.0f;
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaDeviceSynchronize();
    twice<<<1, 32, 0, b>>>(x);
    cudaMemsetAsync(x, 0, 128, a);  // expect: error race_streams
    cudaDeviceSynchronize();
}
