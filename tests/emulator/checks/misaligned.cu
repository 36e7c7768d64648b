__global__ void copy(const float* x, float4* out) {
    out[threadIdx.x] = *reinterpret_cast<const float4*>(x + 1);  // expect: error misaligned
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    float4* out;
    cudaMalloc(&out, 512);
    copy<<<1, 32>>>(x, out);
    cudaDeviceSynchronize();
}
