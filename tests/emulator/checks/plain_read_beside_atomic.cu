__global__ void count(int* out) {
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    if (threadIdx.x < 32) atomicAdd(&total, 1);
    if (threadIdx.x >= 32) out[threadIdx.x] = total;  // expect: error race_shared
}

int main() {
    int* out;
    cudaMalloc(&out, 256);
    count<<<1, 64>>>(out);
    cudaDeviceSynchronize();
}
