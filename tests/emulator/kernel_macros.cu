// Macros that hide `__global__`, with and without parameters, in front of a kernel's braces.
#include <cstdio>

#define KERNEL(name) __global__ void __launch_bounds__(256) name
#define KERNEL_WITH(name, parameters) static __global__ void name parameters
#define PLAIN_KERNEL __global__ void
#define TEMPLATE_KERNEL(name) \
    template <class T> \
    __global__ void name
#define RETURNS(type) __global__ type
#define WHOLE_KERNEL(name, body) \
    __global__ void name(int* p) { body; }

KERNEL(later)(int*);
KERNEL(first)(int* p) { p[threadIdx.x] += 1; }
KERNEL_WITH(second, (int* p)) { p[threadIdx.x] += 1; }
PLAIN_KERNEL third(int* p) { p[threadIdx.x] += 1; }
TEMPLATE_KERNEL(fourth)(T* p) { p[threadIdx.x] += 1; }
RETURNS(void) fifth(int* p) { p[threadIdx.x] += 1; }
WHOLE_KERNEL(sixth, p[threadIdx.x] += 1)
KERNEL(later)(int* p) { p[threadIdx.x] += 1; }

int main() {
    int* p;
    cudaMallocManaged(&p, 32 * sizeof(int));
    cudaMemset(p, 0, 32 * sizeof(int));
    first<<<1, 32>>>(p);
    second<<<1, 32>>>(p);
    third<<<1, 32>>>(p);
    fourth<<<1, 32>>>(p);
    fifth<<<1, 32>>>(p);
    sixth<<<1, 32>>>(p);
    later<<<1, 32>>>(p);
    const cudaError_t error = cudaDeviceSynchronize();
    puts(error == cudaSuccess && p[0] == 7 && p[31] == 7 ? "ok" : "wrong");
}
