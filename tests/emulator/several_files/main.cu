// A submission of several files: kernels and device variables declared in a header, defined elsewhere.
#include "kernels.cuh"

#include <cstdio>

int main() {
    float *data, host[64];
    cudaMalloc(&data, sizeof host);
    fill<<<2, 32>>>(data, 64);            // defined in kernels.cu
    scale_by<float><<<1, 64>>>(data, 3);  // a template from the header
    launch_shift(data, 64);               // launched in kernels.cu
    int ten = 10;
    cudaMemcpyToSymbol(shift, &ten, sizeof ten);
    launch_shift(data, 64);
    cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost);
    bool ok = error == cudaSuccess;
    for (int i = 0; i < 64; i++) ok = ok && host[i] == 3 * square(i) + 2 + 10;
    cudaFree(data);
    puts(ok ? "ok" : "failed");
    return !ok;
}
