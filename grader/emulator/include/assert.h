// The C library's assert, which on the device ends the kernel with cudaErrorAssert. No include guard:
// like the original, it takes a new value of NDEBUG into account.
#include_next <assert.h>

#ifdef __cplusplus
extern "C" void __emulator_assert(const char* __expression, const char* __file, int __line);
#ifndef NDEBUG
#undef assert
#define assert(...) \
    (static_cast<bool>(__VA_ARGS__) ? (void)0 : __emulator_assert(#__VA_ARGS__, __FILE__, __LINE__))
#endif
#endif
