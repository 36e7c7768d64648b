// refused
// expect: cuda_atomic\.cu:3:\d+: error: cuda::atomic is not available here: use atomicAdd
#include <cuda/atomic>
int main() { return 0; }
