// kind: endless_loop
// expect: endless_goto\.cu:5: the kernel does not end
__global__ void k(volatile int* out) {
again:
    if (*out != 1) goto again;
}
int main() {
    int* out;
    cudaMalloc(&out, 4);
    k<<<1, 32>>>(out);
    return cudaDeviceSynchronize() == cudaErrorLaunchTimeout ? 0 : 2;
}
