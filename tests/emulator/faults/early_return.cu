// kind: shuffle
// expect: early_return\.cu:5: __shfl_down_sync\(0xffffffff\): thread \(\d+,0,0\) .* reads from lane 2\d, which has already returned
__global__ void sum(float* out, int n) {
    if (threadIdx.x >= n) return;
    float v = 1; for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) *out = v;
}
int main() {
    float* out;
    cudaMalloc(&out, 4);
    sum<<<1, 32>>>(out, 20);
    return cudaDeviceSynchronize() == cudaErrorLaunchFailure ? 0 : 2;
}
