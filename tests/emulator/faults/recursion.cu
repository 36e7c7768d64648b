// kind: stack_overflow
// expect: recursion\.cu:[34]: stack overflow: thread \(0,0,0\) .*recursion without end
__device__ int endless(int n, volatile int* out) {
    *out = n; return endless(n + 1, out) + *out;
}
__global__ void k(int* out) { *out = endless(0, out); }
int main() {
    int* out;
    cudaMalloc(&out, 4);
    k<<<1, 32>>>(out);
    return cudaDeviceSynchronize() != cudaSuccess ? 0 : 2;
}
