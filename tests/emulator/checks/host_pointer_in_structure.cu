// A pointer inside a parameter: only its use shows where it points.
struct Matrix {
    const float* values;
    int columns;
};
__global__ void copy(Matrix m, float* out) {
    out[threadIdx.x] = m.values[threadIdx.x % m.columns];  // expect: error stray_read
}
int main() {
    float host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, *out;
    cudaMalloc(&out, 128);
    copy<<<1, 32>>>({host, 8}, out);
    cudaDeviceSynchronize();
}
