// kind: divergent_barrier
// expect: divergent_barrier\.cu:4: threads of one block wait at different __syncthreads\(\): threads 0-15 wait at \S*divergent_barrier\.cu:4; threads 16-63 wait at \S*divergent_barrier\.cu:5
__global__ void k() {
    if (threadIdx.x < 16) __syncthreads();
    else __syncthreads();
}
int main() {
    k<<<1, 64>>>();
    return cudaDeviceSynchronize() != cudaSuccess ? 0 : 2;
}
