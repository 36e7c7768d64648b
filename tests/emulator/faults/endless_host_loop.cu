// kind: endless_loop
// expect: endless_host_loop\.cu:9: this loop of host code does not end
#include <stdexcept>
__global__ void k() {}
int main() {
    k<<<1, 32>>>();
    int count = 0;
    try {
        while (cudaDeviceSynchronize() == cudaSuccess) count++;
    } catch (const std::exception&) {
        return 0;
    }
    return 2;
}
