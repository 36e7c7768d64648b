__global__ void k() {
}

int main() {
    k<<<1, 2048>>>();  // expect: error launch
    cudaDeviceSynchronize();
}
