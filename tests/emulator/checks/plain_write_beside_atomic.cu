__global__ void count(int* out) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    atomicAdd(&total, 1);  // expect: error race_shared, error race_warp
    __syncthreads();
    if (threadIdx.x == 0) *out = total;
}

int main() {
    int* out;
    cudaMalloc(&out, 4);
    count<<<1, 64>>>(out);
    cudaDeviceSynchronize();
}
