__global__ void count(int* bins, int n) {
    atomicAdd(&bins[threadIdx.x % (n + 1)], 1);  // expect: error out_of_bounds
}

int main() {
    int* bins;
    cudaMalloc(&bins, 10 * sizeof(int));
    cudaMemset(bins, 0, 10 * sizeof(int));
    count<<<1, 64>>>(bins, 10);
    cudaDeviceSynchronize();
}
