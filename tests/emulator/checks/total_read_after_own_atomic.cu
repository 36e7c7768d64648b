// Each thread reads what it has added to itself: the compiler must not spare it the read.
__global__ void count(float* out) {
    __shared__ float total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    atomicAdd(&total, 1.0f);  // expect: error race_warp, error race_shared
    out[threadIdx.x] = total;  // expect: error race_warp, error race_shared
}

int main() {
    float* out;
    cudaMalloc(&out, 512);
    count<<<1, 64>>>(out);
    cudaDeviceSynchronize();
    cudaFree(out);
}
