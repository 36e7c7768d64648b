// kind: unsupported
// expect: hidden_kernel\.cu:6: this launch reached no kernel: write __global__ itself in front of the kernel
#define BEGIN(name) __global__ void name() {
BEGIN(k) }
int main() {
    k<<<1, 32>>>();
    return 0;
}
