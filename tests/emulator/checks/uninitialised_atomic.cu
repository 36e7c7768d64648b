__global__ void count(int* total) {
    atomicAdd(total, 1);  // expect: error uninitialised_atomic
}

int main() {
    int* total;
    cudaMalloc(&total, 4);
    count<<<1, 32>>>(total);
    cudaDeviceSynchronize();
}
