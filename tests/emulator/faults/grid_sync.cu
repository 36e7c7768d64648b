// kind: unsupported
// expect: grid_sync\.cu:4: grid\.sync\(\) over more than one block is not supported
#include <cooperative_groups.h>
__global__ void k() { cooperative_groups::this_grid().sync(); }
int main() {
    k<<<2, 32>>>();
    return cudaDeviceSynchronize() != cudaSuccess ? 0 : 2;
}
