__global__ void k() {
}

int main() {
    k<<<1, 32>>>();
    void* huge = nullptr;
    cudaMalloc(&huge, size_t{1} << 50);  // expect: warning unchecked_error
    cudaDeviceSynchronize();
}
