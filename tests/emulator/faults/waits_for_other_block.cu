// kind: endless_loop
// expect: waits_for_other_block\.cu:5: the kernel does not end: .*they must not wait for each other
__device__ volatile int arrived;
__global__ void k() {
    if (blockIdx.x == 0) while (arrived == 0) {}
    else arrived = 1;
}
int main() {
    k<<<2, 32>>>();
    return cudaDeviceSynchronize() == cudaErrorLaunchTimeout ? 0 : 2;
}
