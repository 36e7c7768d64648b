// The last block adds up what the others have published, in several styles.
__device__ unsigned finished;
__device__ unsigned tickets[4];

// One thread has all there is to publish.
__global__ void by_one_thread(float* parts, float* out) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = blockIdx.x;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += parts[i];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x == 0) *out = sum;
}
// All threads write, and each has its own fence.
__global__ void by_all_threads(float* parts, float* out) {
    __shared__ bool last;
    parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&tickets[0], 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        float sum = 0.0f;
        for (int i = 0; i < gridDim.x; i++) sum += parts[i * blockDim.x + threadIdx.x];
        out[threadIdx.x] = sum;
        if (threadIdx.x == 0) tickets[0] = 0;  // for the next launch
    }
}
// All threads write, and one of them passes a fence behind the barrier.
__global__ void by_a_fence_behind(float* parts, float* out) {
    __shared__ unsigned ticket;
    parts[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        ticket = atomicAdd(&tickets[1], 1);
    }
    __syncthreads();
    if (ticket != gridDim.x - 1) return;
    __threadfence();
    volatile float* all = parts;
    float sum = 0.0f;
    for (int i = 0; i < gridDim.x; i++) sum += all[i * blockDim.x + threadIdx.x];
    out[threadIdx.x] = sum;
}
// A warp for itself.
__global__ void by_warps(float* parts, float* out) {
    parts[blockIdx.x * 32 + threadIdx.x] = threadIdx.x;
    __syncwarp();
    unsigned ticket = 0;
    if (threadIdx.x == 0) {
        __threadfence();
        ticket = atomicAdd(&tickets[2], 1);
    }
    ticket = __shfl_sync(0xffffffff, ticket, 0);
    __syncwarp();
    if (ticket != gridDim.x - 1) return;
    float sum = 0.0f;
    for (int i = 0; i < gridDim.x; i++) sum += parts[i * 32 + threadIdx.x];
    out[threadIdx.x] = sum;
}
// Sums by atomics, finished by the last block.
__global__ void atomics_first(float* sums, float* out) {
    __shared__ bool last;
    atomicAdd(&sums[threadIdx.x], 1.0f);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&tickets[3], 1) == gridDim.x - 1;
    __syncthreads();
    if (last) out[threadIdx.x] = sqrtf(sums[threadIdx.x]);
}
int main() {
    float *parts, *out;
    cudaMalloc(&parts, 8 * 32 * sizeof(float));
    cudaMalloc(&out, 32 * sizeof(float));
    for (int i = 0; i < 2; i++) by_one_thread<<<8, 32>>>(parts, out);
    for (int i = 0; i < 2; i++) by_all_threads<<<8, 32>>>(parts, out);
    by_a_fence_behind<<<8, 32>>>(parts, out);
    by_warps<<<8, 32>>>(parts, out);
    cudaMemset(parts, 0, 32 * sizeof(float));
    atomics_first<<<8, 32>>>(parts, out);
    cudaDeviceSynchronize();
}
