// refused
// expect: vector_atomic\.cu:3:\d+: error: .*atomicAdd on float2/float4 needs a GPU of compute capability 9\.0
__global__ void k(float4* out) { atomicAdd(out, make_float4(1, 2, 3, 4)); }
int main() { return 0; }
