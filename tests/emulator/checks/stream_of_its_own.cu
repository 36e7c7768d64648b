// A grader's inputs are produced, and its outputs taken away, on the stream that it passes.
#include <emulator/control.h>

__global__ void fill(float* x) {
    x[threadIdx.x] = 1.0f;
}
__global__ void twice(float* x) {
    x[threadIdx.x] *= 2.0f;
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    emu_name_array(x, 1024, "x");
    cudaDeviceSynchronize();
    emu_inputs_ready_on(a);
    twice<<<1, 32, 0, b>>>(x);  // expect: error race_streams
    emu_outputs_taken_on(a);
    cudaDeviceSynchronize();
    emu_inputs_ready_on(a);
    cudaStreamSynchronize(a);
    twice<<<1, 32>>>(x);  // expect: error race_streams
    emu_outputs_taken_on(a);
    cudaDeviceSynchronize();
}
