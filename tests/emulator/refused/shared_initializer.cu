// refused
// expect: shared_initializer\.cu:5:30: error: a __shared__ variable cannot have an initializer
__global__ void k(float* out) {
    __shared__ float sums[2][3], kept;
    __shared__ float total   = 0;
    if (threadIdx.x == 0) kept = total += sums[1][2] = *out;
}
int main() { return 0; }
