__global__ void k() {
    if (threadIdx.x < 32)
        __syncthreads();  // expect: error divergent_barrier
    else
        __syncthreads();
}

int main() {
    k<<<1, 64>>>();
    cudaDeviceSynchronize();
}
