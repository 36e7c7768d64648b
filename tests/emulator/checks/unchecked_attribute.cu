__global__ void k() {
}

int main() {
    cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 300 * 1024);  // expect: warning unchecked_error
    k<<<1, 32>>>();
    cudaDeviceSynchronize();
}
