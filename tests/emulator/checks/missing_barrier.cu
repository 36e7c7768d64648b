__global__ void reverse(float* x) {
    __shared__ float s[128];
    s[threadIdx.x] = x[threadIdx.x];  // expect: error race_shared
    x[threadIdx.x] = s[127 - threadIdx.x];  // expect: error race_shared, error uninitialised_shared
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    reverse<<<1, 128>>>(x);
    cudaDeviceSynchronize();
}
