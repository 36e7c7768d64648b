// kind: misaligned
// expect: misaligned_float4\.cu:5: misaligned address: .*float4.* needs a multiple of 16, and byte 4 of `inp` is not one
__global__ void shifted(float* out, const float* inp) {
    const float4* vectors = reinterpret_cast<const float4*>(inp + 1);
    float4 v = vectors[threadIdx.x];
    out[threadIdx.x] = v.x + v.w;
}
int main() {
    float *out, *inp;
    cudaMalloc(&out, 4096);
    cudaMalloc(&inp, 4096);
    shifted<<<1, 32>>>(out, inp);
    return cudaDeviceSynchronize() == cudaErrorMisalignedAddress ? 0 : 2;
}
