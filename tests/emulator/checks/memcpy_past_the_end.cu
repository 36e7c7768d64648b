struct Row {
    float values[8];
};
__global__ void copy(const Row* x, Row* out) {
    memcpy(&out[threadIdx.x], &x[threadIdx.x], sizeof(Row));  // expect: error out_of_bounds
}

int main() {
    Row *x, *out;
    cudaMalloc(&x, 60);
    cudaMemset(x, 0, 60);
    cudaMalloc(&out, 2 * sizeof(Row));
    copy<<<1, 2>>>(x, out);
    cudaDeviceSynchronize();
}
