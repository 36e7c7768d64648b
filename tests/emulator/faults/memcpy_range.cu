// kind: api
// expect: memcpy_range\.cu:6: cudaMemcpy of 64 bytes, cudaMemcpyDeviceToHost: the source is wrong: only 16 bytes are left there
int main() {
    float host[16], *device;
    cudaMalloc(&device, 16);
    return cudaMemcpy(host, device, 64, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue ? 0 : 2;
}
