#include <cstdlib>

struct AtLoad {
    AtLoad() { std::abort(); }
};
static AtLoad at_load;

__global__ void saxpy(float* out, const float* x, const float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = SAXPY_A * x[i] + y[i];
    }
}

void launch_saxpy(float* out, const float* x, const float* y, int n, cudaStream_t stream) {
    saxpy<<<(n + 255) / 256, 256, 0, stream>>>(out, x, y, n);
}
