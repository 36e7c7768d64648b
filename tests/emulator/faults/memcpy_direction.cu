// kind: api
// expect: memcpy_direction\.cu:6: cudaMemcpy of 16 bytes, cudaMemcpyHostToDevice: the destination is wrong: it is not a device pointer
int main() {
    float host[4], *device;
    cudaMalloc(&device, 16);
    return cudaMemcpy(host, device, 16, cudaMemcpyHostToDevice) == cudaErrorInvalidValue ? 0 : 2;
}
