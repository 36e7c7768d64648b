// The last float4 of 1022 floats is half outside.
__global__ void copy(const float* x, float4* out) {
    out[threadIdx.x] = reinterpret_cast<const float4*>(x)[threadIdx.x];  // expect: error out_of_bounds
}

int main() {
    float* x;
    float4* out;
    cudaMalloc(&x, 1022 * sizeof(float));
    cudaMemset(x, 0, 1022 * sizeof(float));
    cudaMalloc(&out, 1024 * sizeof(float));
    copy<<<1, 256>>>(x, out);
    cudaDeviceSynchronize();
}
