// kind: trap
// expect: division_by_zero\.cu:3: integer division by zero
__global__ void k(int* out, int zero) { *out = 7 / zero; }
int main() {
    int* out;
    cudaMalloc(&out, 4);
    k<<<1, 1>>>(out, 0);
    return cudaDeviceSynchronize() != cudaSuccess ? 0 : 2;
}
