// kind: assert
// expect: assertion\.cu:4: assertion `threadIdx.x < 16` failed \(thread \(16,0,0\) of block \(0,0,0\) of k\)
#include <cassert>
__global__ void k() { assert(threadIdx.x < 16); }
int main() {
    k<<<1, 32>>>();
    return cudaDeviceSynchronize() == cudaErrorAssert ? 0 : 2;
}
