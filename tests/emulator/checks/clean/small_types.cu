// Threads that write different bytes of one word, and 16-bit types.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void bytes(unsigned char* out) {
    __shared__ unsigned char s[128];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    unsigned char v = s[127 - threadIdx.x];
    __syncthreads();
    s[(threadIdx.x * 37) % 128] = v;  // neighbours in a word are of different warps
    __syncthreads();
    out[blockIdx.x + 4 * threadIdx.x] = s[threadIdx.x];  // and of different blocks
}
__global__ void halves(const __half* x, __half* out, __nv_bfloat16* other) {
    __shared__ __half s[64];
    s[63 - threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float v = __half2float(s[threadIdx.x]);
    out[threadIdx.x] = __float2half(v * 2);
    other[threadIdx.x] = __float2bfloat16(v);
    const __half2* pairs = reinterpret_cast<const __half2*>(s);
    if (threadIdx.x < 32) out[threadIdx.x] = __low2half(pairs[threadIdx.x]);
}
int main() {
    unsigned char* out;
    __half* x;
    __nv_bfloat16* other;
    cudaMalloc(&out, 512);
    cudaMalloc(&x, 256);
    cudaMalloc(&other, 128);
    cudaMemset(x, 0, 128);
    bytes<<<4, 128>>>(out);
    halves<<<1, 64>>>(x, x + 64, other);
    cudaDeviceSynchronize();
}
