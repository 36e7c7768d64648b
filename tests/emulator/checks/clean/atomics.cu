// Atomics in shared and global memory, beside each other and beside plain accesses that are in order.
__global__ void histogram(const int* x, int* bins, int n) {
    __shared__ int mine[16];
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[x[i] & 15], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}
__device__ float atomicMaximum(float* address, float value) {
    int* bits = reinterpret_cast<int*>(address);
    int old = *bits;
    while (value > __int_as_float(old)) {
        int assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(value));
        if (old == assumed) break;
    }
    return __int_as_float(old);
}
__global__ void maximum(float* out) {
    __shared__ float most;
    if (threadIdx.x == 0) most = 0.0f;
    __syncthreads();
    atomicMaximum(&most, threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) atomicMaximum(out, most);
}
// An exchange does not look at what was there.
__global__ void exchange(unsigned* slot) {
    if (threadIdx.x == 0) atomicExch(slot, blockIdx.x);
}
int main() {
    int *x, *bins;
    float* most;
    unsigned* slot;
    cudaMalloc(&x, 1000 * sizeof(int));
    cudaMalloc(&bins, 16 * sizeof(int));
    cudaMalloc(&most, sizeof(float));
    cudaMalloc(&slot, sizeof(unsigned));
    cudaMemset(x, 1, 1000 * sizeof(int));
    cudaMemset(bins, 0, 16 * sizeof(int));
    cudaMemset(most, 0, sizeof(float));
    histogram<<<3, 128>>>(x, bins, 1000);
    maximum<<<1, 128>>>(most);
    exchange<<<3, 32>>>(slot);
    cudaDeviceSynchronize();
}
