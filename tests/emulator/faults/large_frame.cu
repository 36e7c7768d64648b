// kind: stack_overflow
// expect: large_frame\.cu:[3-6]: stack overflow: thread \(0,0,0\) of block \(0,0,0\) of k needs more than 128 KB
__global__ void k(float* p, int n) {
    volatile float large[1000000];
    large[n] = 1;
    *p = large[n];
}
int main() {
    float* p;
    cudaMalloc(&p, 4);
    k<<<1, 32>>>(p, 5);
    cudaDeviceSynchronize();
}
