// Variables that a macro or a template declares.
#define ON_DEVICE(type, name) __device__ type name
#define TABLE __constant__ float

ON_DEVICE(int, counter);
TABLE weights[4] = {1, 2, 3, 4};
template <typename T>
struct Limits {
    static constexpr T kLargest = T(7);
};

__global__ void k(float* x) {
    if (threadIdx.x == 0) counter = 5;
    __syncthreads();
    x[threadIdx.x] = counter + weights[threadIdx.x % 4] + Limits<float>::kLargest;
}
int main() {
    float* x;
    cudaMalloc(&x, 128);
    k<<<1, 32>>>(x);
    cudaDeviceSynchronize();
}
