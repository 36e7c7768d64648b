// kind: launch
// expect: shared_needs_attribute\.cu:5: launch of k fails: 65536 bytes of dynamic shared memory need cudaFuncSetAttribute
__global__ void k() {}
int main() {
    k<<<1, 32, 65536>>>();
    return cudaGetLastError() == cudaErrorInvalidConfiguration ? 0 : 2;
}
