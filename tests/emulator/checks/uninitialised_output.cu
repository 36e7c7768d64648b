// A grader fills its outputs with a pattern, which does not count as writing them.
#include <emulator/control.h>

__global__ void add(float* out) {
    out[threadIdx.x] += 1.0f;  // expect: error uninitialised_read
}

int main() {
    float* out;
    cudaMalloc(&out, 128);
    cudaMemset(out, 0xff, 128);
    emu_uninitialised(out, 128);
    add<<<1, 32>>>(out);
    cudaDeviceSynchronize();
}
