// kind: launch
// expect: the __shared__ variables of block \(0,0,0\) of k take 65536 bytes, more than the 49152
__global__ void k(float* out) {
    __shared__ float large[64][256];
    large[0][threadIdx.x] = 1;
    *out = large[0][threadIdx.x];
}
int main() {
    float* out;
    cudaMalloc(&out, 4);
    k<<<1, 32>>>(out);
    return cudaDeviceSynchronize() != cudaSuccess ? 0 : 2;
}
