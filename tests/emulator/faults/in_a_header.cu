// kind: illegal_address
// expect: in_a_header\.cuh:5: illegal memory access: the address is 0 bytes past the end of `inp` \(4096 bytes\) \(thread \(4,0,0\)
#include "in_a_header.cuh"
__global__ void k(float* out, const float* inp, int n) {
    out[threadIdx.x] = helper(inp, n + threadIdx.x);
}
int main() {
    float *out, *inp;
    cudaMalloc(&out, 4096);
    cudaMalloc(&inp, 4096);
    k<<<1, 32>>>(out, inp, 1020);
    return cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 2;
}
