__global__ void flag(int* found) {
    __shared__ int any;
    if (threadIdx.x == 0) any = 0;
    __syncthreads();
    any = 1;  // expect: warning same_value_race
    __syncthreads();
    if (threadIdx.x == 0) *found = any;
}

int main() {
    int* found;
    cudaMalloc(&found, 4);
    flag<<<1, 64>>>(found);
    cudaDeviceSynchronize();
}
