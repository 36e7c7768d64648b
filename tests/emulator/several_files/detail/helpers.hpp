#ifndef HELPERS_HPP
#define HELPERS_HPP
// used by both files
__host__ __device__ inline int square(int x) { return x * x; }
static __device__ float to_float(int x) {
    for (int i = 0; i < 1; i++) x += 0;
    return x;
}
#endif
