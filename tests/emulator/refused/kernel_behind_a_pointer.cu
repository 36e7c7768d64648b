// refused
// expect: kernel_behind_a_pointer\.cu:6:\d+: error: .*name the kernel itself in this call
__global__ void k() {}
int main() {
    const void* f = reinterpret_cast<const void*>(k);
    cudaLaunchKernel(f, dim3(1), dim3(1), nullptr, 0, nullptr);
}
