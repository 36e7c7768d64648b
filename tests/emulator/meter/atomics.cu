// Atomic operations. 2 blocks of 64 threads: 4 warps.

// All lanes of all warps add to one word: a request of 1 sector for each warp, in which 32 lanes take
// turns; 128 operations meet.
// expect one_address: global_atomic_requests = 4, global_atomic_operations = 128, global_atomic_sectors = 4
// expect one_address: global_atomic_turns = 128, global_atomics_on_one_address = 128, l2_atomic_sectors = 4
// They need no load or store of their own.
// expect one_address: global_load_requests = 0, global_store_requests = 0
__global__ void one_address(float* out) { atomicAdd(out, 1.0f); }

// A word for each lane, the same for both warps of both blocks.
// expect own_word: global_atomic_requests = 4, global_atomic_sectors = 16, global_atomic_turns = 4
// expect own_word: global_atomics_on_one_address = 4
__global__ void own_word(float* out) { atomicAdd(out + threadIdx.x % 32, 1.0f); }

// In shared memory lanes that want one word take turns, too: 32 waves for each warp.
// expect shared_counter: shared_atomic_requests = 4, shared_atomic_operations = 128, shared_atomic_waves = 128
// expect shared_counter: global_atomic_requests = 0
__global__ void shared_counter(int* out) {
    __shared__ int counter;
    if (threadIdx.x == 0) counter = 0;
    __syncthreads();
    atomicAdd(&counter, 1);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = counter;
}

int main() {
    float* out;
    cudaMalloc(&out, 64 * sizeof(float));
    cudaMemset(out, 0, 64 * sizeof(float));
    one_address<<<2, 64>>>(out);
    own_word<<<2, 64>>>(out);
    shared_counter<<<2, 64>>>((int*)out);
    return cudaDeviceSynchronize();
}
