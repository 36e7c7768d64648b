// kind: illegal_address
// expect: host_pointer\.cu:7: launch of store: argument `out` is not a device pointer
#include <vector>
__global__ void store(float* out) { out[threadIdx.x] = 1; }
int main() {
    std::vector<float> host(32);
    store<<<1, 32>>>(host.data());
    return cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 2;
}
