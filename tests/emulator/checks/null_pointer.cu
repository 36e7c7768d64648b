__global__ void fill(float* x) {
    x[threadIdx.x] = 1.0f;  // expect: error illegal_address
}

int main() {
    fill<<<1, 32>>>(nullptr);
    cudaDeviceSynchronize();
}
