// kind: illegal_address
// expect: out_of_bounds\.cu:6: illegal memory access: the address is 0 bytes past the end of `inp` \(1024 bytes\) \(thread \(16,0,0\) of block \(0,0,0\) of read_past\)
#include <cstdio>
__global__ void read_past(float* out, const float* inp, int n) {
    int i = threadIdx.x;
    out[i] = inp[i + n];
}
int main() {
    float *out, *inp;
    cudaMalloc(&out, 1024);
    cudaMalloc(&inp, 1024);
    read_past<<<1, 32>>>(out, inp, 240);
    return cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 2;
}
