// A kernel that does not end, or takes very long, is given up when it has made enough accesses.
// sample: 20
// machine: access_limit=10000
#include <cstdio>

__global__ void waits(const volatile int* flag) {
    while (*flag != 1) {
    }
}

// expect after: threads = 64, global_store_requests = 2
__global__ void after(float* out) { out[threadIdx.x] = 1; }

int main() {
    int* flag;
    float* out;
    cudaMalloc(&flag, sizeof(int));
    cudaMalloc(&out, 64 * sizeof(float));
    cudaMemset(flag, 0, sizeof(int));
    waits<<<40, 64>>>(flag);
    after<<<1, 64>>>(out);
    cudaError_t error = cudaDeviceSynchronize();
    puts(cudaGetErrorString(error));
    return error;
}
