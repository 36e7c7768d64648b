// kind: shuffle
// expect: bad_width\.cu:3: __shfl_sync.*the width is 12, but must be 1, 2, 4, 8, 16 or 32
__global__ void k(int* out, int width) { out[threadIdx.x] = __shfl_sync(~0u, 1, 0, width); }
int main() {
    int* out;
    cudaMalloc(&out, 1024);
    k<<<1, 32>>>(out, 12);
    return cudaDeviceSynchronize() != cudaSuccess ? 0 : 2;
}
