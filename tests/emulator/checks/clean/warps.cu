// Code that counts on its warp alone, with the synchronisation that this takes.
__device__ float tree(volatile float* s, float v) {
    int lane = threadIdx.x % 32;
    s[lane] = v;
    __syncwarp();
    for (int o = 16; o > 0; o /= 2) {
        float other = lane < o ? s[lane + o] : 0.0f;
        __syncwarp();
        if (lane < o) s[lane] = s[lane] + other;
        __syncwarp();
    }
    return s[0];
}
__global__ void sums(float* out, int n) {
    __shared__ float s[4][32];
    int warp = threadIdx.x / 32;
    float v = tree(s[warp], threadIdx.x);
    __syncwarp();  // s is used again
    if (threadIdx.x % 32 < 20) {
        unsigned mask = __activemask();
        s[warp][threadIdx.x % 32] = v;
        __syncwarp(mask);
        v += s[warp][19 - threadIdx.x % 32];
    }
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o);
    if (blockIdx.x * blockDim.x + threadIdx.x >= n) return;  // nobody waits for these
    out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
int main() {
    float* out;
    cudaMalloc(&out, 250 * sizeof(float));
    sums<<<2, 128>>>(out, 250);
    cudaDeviceSynchronize();
}
