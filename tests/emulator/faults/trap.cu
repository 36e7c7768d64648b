// kind: trap
// expect: trap\.cu:3: __trap\(\) reached by thread \(5,0,0\)
__global__ void k() { if (threadIdx.x == 5) __trap(); }
int main() {
    k<<<1, 32>>>();
    return cudaDeviceSynchronize() != cudaSuccess ? 0 : 2;
}
