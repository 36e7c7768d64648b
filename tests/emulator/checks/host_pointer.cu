__global__ void fill(float* x) {
    x[threadIdx.x] = 1.0f;
}

int main() {
    float host[32];
    fill<<<1, 32>>>(host);  // expect: error illegal_address
    cudaDeviceSynchronize();
}
