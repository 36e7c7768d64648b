// kind: api
// expect: double_free\.cu:7: cudaFree: this memory was freed before
int main() {
    float* device;
    cudaMalloc(&device, 16);
    cudaFree(device);
    return cudaFree(device) == cudaErrorInvalidValue ? 0 : 2;
}
