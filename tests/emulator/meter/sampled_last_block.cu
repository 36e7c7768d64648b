// The last block to finish adds up what the others have left; only some blocks are run.
// sample: 20
#include <cstdio>
__device__ unsigned int done = 0;

// 500 blocks of 32 threads, each takes a ticket with one lane, and leaves one number.
// expect add_up: threads = 16000, global_atomic_requests = 500, global_atomics_on_one_address = 500
// expect add_up: global_store_requests = 501
// The last block, and no other, loads the 500 numbers in 16 requests.
// expect add_up: global_load_requests = 516, busiest_warp_load_requests = 17
__global__ void add_up(float* out, float* partial, const float* inp) {
    __shared__ bool is_last;
    float sum = inp[blockIdx.x * 32 + threadIdx.x];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicAdd(&done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    sum = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += 32) sum += partial[i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (threadIdx.x == 0) *out = sum;
}

// The same with a counter that goes back to 0 by itself, launched twice: the second launch finds it at 0.
// expect wraps: global_store_requests = 501, global_atomic_requests = 500
__global__ void wraps(float* out, float* partial, unsigned int* ticket) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = 1;
        __threadfence();
        is_last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last) out[threadIdx.x] = 1;
}

int main() {
    float *inp, *partial, *out;
    unsigned int* ticket;
    cudaMalloc(&inp, 500 * 32 * sizeof(float));
    cudaMalloc(&partial, 500 * sizeof(float));
    cudaMalloc(&out, 32 * sizeof(float));
    cudaMalloc(&ticket, sizeof(unsigned int));
    cudaMemset(ticket, 0, sizeof(unsigned int));
    add_up<<<500, 32>>>(out, partial, inp);
    wraps<<<500, 32>>>(out, partial, ticket);
    wraps<<<500, 32>>>(out, partial, ticket);
    unsigned int left = 1;
    cudaMemcpy(&left, ticket, sizeof left, cudaMemcpyDeviceToHost);
    return left != 0;
}
