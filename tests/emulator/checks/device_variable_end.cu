__device__ __align__(8) int table[9];
__global__ void fill() {
    reinterpret_cast<long long*>(table)[threadIdx.x] = threadIdx.x;  // expect: error out_of_bounds
}

int main() {
    fill<<<1, 5>>>();
    cudaDeviceSynchronize();
}
