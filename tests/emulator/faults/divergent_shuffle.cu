// kind: shuffle
// expect: divergent_shuffle\.cu:4: __shfl_xor_sync\(0xffffffff\) never completes: lane 8 is in the mask but waits at __syncthreads\(\) in \S*divergent_shuffle\.cu:5
__global__ void part(float* out) {
    if (threadIdx.x < 8) out[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1.f, 4);
    __syncthreads();
    out[threadIdx.x] += 1;
}
int main() {
    float* out;
    cudaMalloc(&out, 1024);
    part<<<1, 32>>>(out);
    return cudaDeviceSynchronize() == cudaErrorLaunchFailure ? 0 : 2;
}
