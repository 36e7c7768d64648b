// The words that CUDA adds to C++.
#pragma once

#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDA_ARCH__ 800
#define __CUDA_EMULATOR__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_EXTENDED_LAMBDA__ 1
#define __CUDACC_RELAXED_CONSTEXPR__ 1
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000

#define __host__
#define __device__
#define __global__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __nv_pure__
#define __align__(...) __attribute__((aligned(__VA_ARGS__)))
#define __builtin_align__(...) __attribute__((aligned(__VA_ARGS__)))
// The C++ library writes __attribute__((__noinline__)), so that word stays what it is; the front end
// replaces it in student code.
// Not always_inline, which forbids recursion.
#define __forceinline__ inline
#define __device_builtin__
#define CUDART_CB

// One block runs at a time, so one static object serves every block in turn. The alignment makes the
// bank of an element depend on its offset alone.
#define __shared__ static __attribute__((aligned(256)))

#define __EMULATOR_INLINE__ inline __attribute__((always_inline))
#define __EMULATOR_FUNCTION__ static __EMULATOR_INLINE__
#define __EMULATOR_HIDDEN__ __attribute__((visibility("hidden")))
// Where a call stands in the student's source.
#define __EMULATOR_SITE__ int __line = __builtin_LINE(), const char *__file = __builtin_FILE()

#ifdef __cplusplus
namespace __emulator {
struct __site {
    int __line;
    const char* __file;
};
}  // namespace __emulator
// The same as one argument, which no int can be taken for.
#define __EMULATOR_SITE_AS__(_name) ::__emulator::__site _name = ::__emulator::__site{__builtin_LINE(), __builtin_FILE()}
#endif
