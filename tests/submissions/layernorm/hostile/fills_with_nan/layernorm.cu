#include <cuda_runtime.h>

__global__ void fill(float* to, float value, size_t count) {
    const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < count) to[i] = value;
}

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
    const size_t count = size_t(rows) * hidden_dim;
    fill<<<(count + 255) / 256, 256, 0, stream>>>(ln_res, nanf(""), count);
    fill<<<(rows + 255) / 256, 256, 0, stream>>>(vars, nanf(""), rows);
    fill<<<(rows + 255) / 256, 256, 0, stream>>>(means, nanf(""), rows);
}
