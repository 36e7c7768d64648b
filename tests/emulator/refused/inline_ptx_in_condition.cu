// refused
// expect: inline_ptx_in_condition\.cu:5:\d+: error: inline PTX \(asm\) cannot run on the CPU
__global__ void k() {
#if __CUDA_ARCH__ >= 700
    asm("bar.sync 0;");
#endif
}
int main() { return 0; }
