// kind: launch
// expect: too_many_threads\.cu:5: launch of k fails: the block \(64,32,1\) has more threads than the 1024
__global__ void k() {}
int main() {
    k<<<1, dim3(64, 32)>>>();
    return cudaGetLastError() == cudaErrorInvalidConfiguration && cudaDeviceSynchronize() == cudaSuccess ? 0 : 2;
}
