// kind: endless_loop
// expect: endless_loop\.cu:5: the kernel does not end: after 1000000 steps thread \(3,0,0\) of block \(0,0,0\) of k is still in this loop
__global__ void k(volatile int* out) {
    if (threadIdx.x == 3)
        while (true) *out += 1;
}
int main() {
    int* out;
    cudaMalloc(&out, 4);
    k<<<1, 32>>>(out);
    return cudaDeviceSynchronize() == cudaErrorLaunchTimeout ? 0 : 2;
}
