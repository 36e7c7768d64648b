// Blocks that fetch rows from a counter until there are none left; only some blocks are run.
// sample: 20

// 10000 rows of 32 floats for 264 blocks. A block that stands for others takes rows for them, too: all
// rows are read once. A counter is fetched for each row, and once more by each block.
// expect queue: global_load_requests ~ 10000, global_load_sectors ~ 40000, global_store_requests ~ 10000
// expect queue: global_atomic_requests ~ 10264
__global__ void queue(float* out, const float* inp, int* next, int rows) {
    for (;;) {
        int row = threadIdx.x == 0 ? atomicAdd(next, 1) : 0;
        row = __shfl_sync(0xffffffff, row, 0);
        if (row >= rows) return;
        out[row * 32 + threadIdx.x] = inp[row * 32 + threadIdx.x];
    }
}

int main() {
    const int rows = 10000;
    float *inp, *out;
    int* next;
    cudaMalloc(&inp, rows * 32 * sizeof(float));
    cudaMalloc(&out, rows * 32 * sizeof(float));
    cudaMalloc(&next, sizeof(int));
    cudaMemset(next, 0, sizeof(int));
    queue<<<264, 32>>>(out, inp, next, rows);
    return cudaDeviceSynchronize();
}
