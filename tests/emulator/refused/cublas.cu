// refused
// expect: cublas\.cu:3:1: error: cuBLAS is not available here
#include <cublas_v2.h>
int main() { return 0; }
