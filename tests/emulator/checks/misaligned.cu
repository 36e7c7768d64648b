__global__ void last(const float* x, float* out) {
    out[threadIdx.x] = reinterpret_cast<const float4*>(x + 1)->w;  // expect: error misaligned
}

int main() {
    float* x;
    cudaMalloc(&x, 256 * sizeof(float));
    cudaMemset(x, 0, 256 * sizeof(float));
    float* out;
    cudaMalloc(&out, 512);
    last<<<1, 32>>>(x, out);
    cudaDeviceSynchronize();
}
