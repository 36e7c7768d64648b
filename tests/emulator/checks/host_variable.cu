// nvcc refuses this; a compiler that knows no device does not.
static int rows = 4;
namespace {
float scale = 2.0f;
}
int calls;
static const int kColumns = 8;

__global__ void k(float* x) {
    x[threadIdx.x] = kColumns * scale;  // expect: error stray_read
    if (threadIdx.x == 1) x[32] = rows;  // expect: error stray_read
    if (threadIdx.x == 0) calls = 1;    // expect: error stray_write
}
int main() {
    float* x;
    cudaMalloc(&x, 256);
    rows = 5;
    scale = 3.0f;
    k<<<1, 32>>>(x);
    cudaDeviceSynchronize();
}
