__global__ void copy(const float4* x, float4* out) {
    out[threadIdx.x] = x[threadIdx.x];  // expect: error uninitialised_read
}

int main() {
    float4 *x, *out;
    cudaMalloc(&x, 512);
    cudaMalloc(&out, 512);
    copy<<<1, 32>>>(x, out);
    cudaDeviceSynchronize();
}
