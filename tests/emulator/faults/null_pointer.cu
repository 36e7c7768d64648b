// kind: illegal_address
// expect: null_pointer\.cu:3: .*the address is a null pointer
__global__ void store(float* out) { *out = 1; }
int main() {
    float* nothing = nullptr;
    store<<<1, 1>>>(nothing);
    return cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 2;
}
