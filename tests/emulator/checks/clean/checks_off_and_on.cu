// What happened while nobody looked is taken to be right.
#include <emulator/control.h>

__global__ void fill(float* x) {
    x[threadIdx.x] = 1.0f;
}
__global__ void twice(float* x) {
    x[threadIdx.x] *= 2.0f;
}
int main() {
    float *x, *y;
    cudaMalloc(&x, 128);
    emu_watch(0);
    fill<<<1, 32>>>(x);
    cudaMalloc(&y, 128);
    emu_watch(1);
    twice<<<1, 32>>>(x);
    twice<<<1, 32>>>(y);
    cudaDeviceSynchronize();
}
