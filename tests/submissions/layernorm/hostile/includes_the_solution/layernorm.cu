#include <cuda_runtime.h>
#if __has_include("../../../../../solution/layernorm/layernorm.cu")
#include "../../../../../solution/layernorm/layernorm.cu"
#elif __has_include("../../solution/layernorm/layernorm.cu")
#include "../../solution/layernorm/layernorm.cu"
#elif __has_include("../solution/layernorm/layernorm.cu")
#include "../solution/layernorm/layernorm.cu"
#else
#error there is no solution
#endif

extern "C" void launch_layernorm(float* ln_res, float* vars, float* means, const float* inp,
                                 const float* gamma, const float* beta, int rows, int hidden_dim,
                                 cudaStream_t stream) {
    ker_layer_norm<<<rows, 256, 0, stream>>>(ln_res, vars, means, inp, gamma, beta, hidden_dim);
}
