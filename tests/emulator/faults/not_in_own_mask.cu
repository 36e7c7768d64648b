// kind: shuffle
// expect: not_in_own_mask\.cu:3: __shfl_sync\(0xff\): lane 8 calls it but is not in its own mask
__global__ void k(int* out) { out[threadIdx.x] = __shfl_sync(0xff, 1, 0); }
int main() {
    int* out;
    cudaMalloc(&out, 1024);
    k<<<1, 32>>>(out);
    return cudaDeviceSynchronize() != cudaSuccess ? 0 : 2;
}
