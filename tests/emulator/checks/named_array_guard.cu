// An array between guards, as a grader passes it: reading a guard does no harm that could be seen.
#include <emulator/control.h>

__global__ void shift(const float* x, float* out) {
    out[threadIdx.x] = x[static_cast<int>(threadIdx.x) - 1];  // expect: error out_of_bounds
}

int main() {
    char* memory;
    float* out;
    cudaMalloc(&memory, 3 * 1024);
    cudaMalloc(&out, 1024);
    cudaMemset(memory, 0, 3 * 1024);
    emu_name_array(memory + 1024, 1024, "x");
    shift<<<1, 256>>>(reinterpret_cast<float*>(memory + 1024), out);
    cudaDeviceSynchronize();
}
