// Threads that wait for a flag, a lock or the block before them.
__device__ int lock;
__device__ volatile int stop;

__global__ void within_block(int* out) {
    __shared__ volatile int ready;
    __shared__ int data[32];
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 70) {
        data[5] = 17;
        __threadfence_block();
        ready = 1;
    } else if (threadIdx.x == 3) {
        while (ready == 0) {
        }
        *out = data[5];
    }
}
__global__ void critical_section(int* total) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&lock, 0, 1) != 0) {
        }
        __threadfence();
        *total += 1;
        __threadfence();
        atomicExch(&lock, 0);
    }
}
// Each block takes its turn by a ticket, so that no block waits for one that has not started.
__global__ void chained(unsigned* ticket, volatile int* flags, int* sums) {
    __shared__ unsigned mine;
    if (threadIdx.x == 0) mine = atomicAdd(ticket, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        int before = 0;
        if (mine > 0) {
            while (flags[mine - 1] == 0) {
            }
            before = sums[mine - 1];
        }
        sums[mine] = before + 1;
        __threadfence();
        flags[mine] = 1;
    }
}
__global__ void early_exit(const int* x, int n) {
    for (int i = threadIdx.x; i < n && stop == 0; i += blockDim.x) {
        if (x[i] == 7) stop = 1;
    }
}
int main() {
    int *out, *x;
    unsigned* ticket;
    cudaMalloc(&out, 4);
    cudaMalloc(&x, 256 * sizeof(int));
    cudaMalloc(&ticket, 4);
    cudaMemset(out, 0, 4);
    cudaMemset(x, 0, 256 * sizeof(int));
    cudaMemset(ticket, 0, 4);
    within_block<<<1, 128>>>(out);
    critical_section<<<4, 128>>>(out);
    chained<<<8, 32>>>(ticket, x, x + 128);
    early_exit<<<4, 64>>>(x, 256);
    cudaDeviceSynchronize();
}
