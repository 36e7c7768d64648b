// kind: illegal_address
// expect: dynamic_shared_missing\.cu:5: .*dynamic shared memory, of which the launch asks for none: give its size
__global__ void stage(float* out) {
    extern __shared__ float staged[];
    staged[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = staged[threadIdx.x];
}
int main() {
    float* out;
    cudaMalloc(&out, 1024);
    stage<<<1, 32>>>(out);
    return cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 2;
}
