// refused
// expect: memcpy_async\.cu:7:\d+: error: asynchronous copies
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(float* inp) {
    __shared__ float staged[32];
    cg::memcpy_async(cg::this_thread_block(), staged, inp, sizeof staged);
}
int main() { return 0; }
