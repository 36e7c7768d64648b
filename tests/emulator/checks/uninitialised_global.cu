__global__ void scale(float* x) {
    x[threadIdx.x] *= 2.0f;  // expect: error uninitialised_read
}

int main() {
    float* x;
    cudaMalloc(&x, 128);
    scale<<<1, 32>>>(x);
    cudaDeviceSynchronize();
}
