// Objects with static storage that use the device before main and after it.
#include <cstdio>

__global__ void set(int* p) { *p = 3; }

struct Buffer {
    int* p = nullptr;
    Buffer() {
        cudaMalloc(&p, sizeof(int));
        set<<<1, 32>>>(p);
    }
    ~Buffer() { cudaFree(p); }
};
static Buffer buffer;

int main() {
    int found = 0;
    const cudaError_t error = cudaMemcpy(&found, buffer.p, sizeof(int), cudaMemcpyDeviceToHost);
    puts(error == cudaSuccess && found == 3 ? "ok" : "wrong");
}
