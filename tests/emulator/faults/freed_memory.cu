// kind: illegal_address
// expect: freed_memory\.cu:3: .*inside freed memory, `out`
__global__ void store(float* out) { out[threadIdx.x] = 1; }
int main() {
    float* out;
    cudaMalloc(&out, 1024);
    store<<<1, 32>>>(out);
    cudaFree(out);
    store<<<1, 32>>>(out);
    return cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 2;
}
