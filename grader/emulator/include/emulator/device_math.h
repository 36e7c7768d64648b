// Floating-point functions that CUDA adds to <math.h>.
#pragma once

#include <math.h>
#include <string.h>

#include "keywords.h"

#ifdef __GLIBC__
#define __EMULATOR_GLIBC__ (__GLIBC__ * 1000 + __GLIBC_MINOR__)
#else
#define __EMULATOR_GLIBC__ 0
#endif

// ------------------------------------------------------------------------------- min, max, ...
__EMULATOR_FUNCTION__ float min(float __x, float __y) { return fminf(__x, __y); }
__EMULATOR_FUNCTION__ float max(float __x, float __y) { return fmaxf(__x, __y); }
__EMULATOR_FUNCTION__ double min(double __x, double __y) { return fmin(__x, __y); }
__EMULATOR_FUNCTION__ double max(double __x, double __y) { return fmax(__x, __y); }
__EMULATOR_FUNCTION__ double min(float __x, double __y) { return fmin(__x, __y); }
__EMULATOR_FUNCTION__ double max(float __x, double __y) { return fmax(__x, __y); }
__EMULATOR_FUNCTION__ double min(double __x, float __y) { return fmin(__x, __y); }
__EMULATOR_FUNCTION__ double max(double __x, float __y) { return fmax(__x, __y); }

#if __EMULATOR_GLIBC__ < 2042  // later ones have C23's own
__EMULATOR_FUNCTION__ float rsqrtf(float __x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(__x))); }
__EMULATOR_FUNCTION__ double rsqrt(double __x) { return 1.0 / sqrt(__x); }
#endif
__EMULATOR_FUNCTION__ float rsqrt(float __x) { return rsqrtf(__x); }
__EMULATOR_FUNCTION__ float rcbrtf(float __x) { return 1.0f / cbrtf(__x); }
__EMULATOR_FUNCTION__ double rcbrt(double __x) { return 1.0 / cbrt(__x); }
__EMULATOR_FUNCTION__ float rhypotf(float __x, float __y) { return 1.0f / hypotf(__x, __y); }
__EMULATOR_FUNCTION__ double rhypot(double __x, double __y) { return 1.0 / hypot(__x, __y); }
__EMULATOR_FUNCTION__ float norm3df(float __x, float __y, float __z) { return sqrtf(__x * __x + __y * __y + __z * __z); }
__EMULATOR_FUNCTION__ float norm4df(float __x, float __y, float __z, float __w) {
    return sqrtf(__x * __x + __y * __y + __z * __z + __w * __w);
}
__EMULATOR_FUNCTION__ double norm3d(double __x, double __y, double __z) {
    return sqrt(__x * __x + __y * __y + __z * __z);
}
__EMULATOR_FUNCTION__ float rnorm3df(float __x, float __y, float __z) { return 1.0f / norm3df(__x, __y, __z); }
__EMULATOR_FUNCTION__ double norm4d(double __x, double __y, double __z, double __w) {
    return sqrt(__x * __x + __y * __y + __z * __z + __w * __w);
}
__EMULATOR_FUNCTION__ double rnorm3d(double __x, double __y, double __z) { return 1.0 / norm3d(__x, __y, __z); }
__EMULATOR_FUNCTION__ float rnorm4df(float __x, float __y, float __z, float __w) {
    return 1.0f / norm4df(__x, __y, __z, __w);
}
__EMULATOR_FUNCTION__ double rnorm4d(double __x, double __y, double __z, double __w) {
    return 1.0 / norm4d(__x, __y, __z, __w);
}
__EMULATOR_FUNCTION__ double norm(int __count, const double* __x) {
    double __sum = 0.0;
    for (int __i = 0; __i < __count; ++__i) __sum += __x[__i] * __x[__i];
    return sqrt(__sum);
}
__EMULATOR_FUNCTION__ float normf(int __count, const float* __x) {
    double __sum = 0.0;
    for (int __i = 0; __i < __count; ++__i) __sum += static_cast<double>(__x[__i]) * __x[__i];
    return static_cast<float>(sqrt(__sum));
}
__EMULATOR_FUNCTION__ double rnorm(int __count, const double* __x) { return 1.0 / norm(__count, __x); }
__EMULATOR_FUNCTION__ float rnormf(int __count, const float* __x) { return 1.0f / normf(__count, __x); }
__EMULATOR_FUNCTION__ float fdividef(float __x, float __y) { return __x / __y; }
#if __EMULATOR_GLIBC__ < 2041
__EMULATOR_FUNCTION__ float sinpif(float __x) { return static_cast<float>(sin(M_PI * __x)); }
__EMULATOR_FUNCTION__ float cospif(float __x) { return static_cast<float>(cos(M_PI * __x)); }
__EMULATOR_FUNCTION__ double sinpi(double __x) { return sin(M_PI * __x); }
__EMULATOR_FUNCTION__ double cospi(double __x) { return cos(M_PI * __x); }
#endif
__EMULATOR_FUNCTION__ void sincospif(float __x, float* __sine, float* __cosine) {
    *__sine = sinpif(__x);
    *__cosine = cospif(__x);
}
__EMULATOR_FUNCTION__ void sincospi(double __x, double* __sine, double* __cosine) {
    *__sine = sinpi(__x);
    *__cosine = cospi(__x);
}
// By bisection: slow, and right to the last digits.
inline double erfinv(double __x) {
    if (!(__x > -1.0 && __x < 1.0)) return __x == 1.0 ? INFINITY : __x == -1.0 ? -INFINITY : NAN;
    double __low = -6.0, __high = 6.0;
    for (int __i = 0; __i < 80; ++__i) {
        const double __middle = 0.5 * (__low + __high);
        (erf(__middle) < __x ? __low : __high) = __middle;
    }
    const double __found = 0.5 * (__low + __high);
    return __x == 0.0 ? __x : __found;
}
inline double erfcinv(double __x) {
    if (!(__x > 0.0 && __x < 2.0)) return __x == 0.0 ? INFINITY : __x == 2.0 ? -INFINITY : NAN;
    double __low = -6.0, __high = 27.5;
    for (int __i = 0; __i < 80; ++__i) {
        const double __middle = 0.5 * (__low + __high);
        (erfc(__middle) > __x ? __low : __high) = __middle;
    }
    return 0.5 * (__low + __high);
}
inline double erfcx(double __x) {
    if (__x < 20.0) return exp(__x * __x) * erfc(__x);
    const double __square = 1.0 / (__x * __x);  // the asymptotic series
    return 0.56418958354775629 / __x * (1.0 - 0.5 * __square * (1.0 - 1.5 * __square * (1.0 - 2.5 * __square)));
}
__EMULATOR_FUNCTION__ float erfinvf(float __x) { return static_cast<float>(erfinv(__x)); }
__EMULATOR_FUNCTION__ float erfcinvf(float __x) { return static_cast<float>(erfcinv(__x)); }
__EMULATOR_FUNCTION__ float erfcxf(float __x) { return static_cast<float>(erfcx(__x)); }
__EMULATOR_FUNCTION__ double normcdfinv(double __x) { return -1.4142135623730951 * erfcinv(2.0 * __x); }
__EMULATOR_FUNCTION__ float normcdfinvf(float __x) { return static_cast<float>(normcdfinv(__x)); }
__EMULATOR_FUNCTION__ float normcdff(float __x) { return 0.5f * erfcf(-__x * 0.70710678118654752f); }
__EMULATOR_FUNCTION__ double normcdf(double __x) { return 0.5 * erfc(-__x * 0.70710678118654752); }
#ifndef __USE_GNU  // glibc has them as extensions
__EMULATOR_FUNCTION__ float exp10f(float __x) { return powf(10.0f, __x); }
__EMULATOR_FUNCTION__ double exp10(double __x) { return pow(10.0, __x); }
__EMULATOR_FUNCTION__ void sincosf(float __x, float* __sine, float* __cosine) {
    *__sine = sinf(__x);
    *__cosine = cosf(__x);
}
__EMULATOR_FUNCTION__ void sincos(double __x, double* __sine, double* __cosine) {
    *__sine = sin(__x);
    *__cosine = cos(__x);
}
#endif

// ------------------------------------------------------------------- fast approximate functions
// Macros, because the C library declares functions of these names for its own use.
#define __expf expf
#define __exp10f exp10f
#define __exp2f exp2f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __sincosf sincosf
__EMULATOR_FUNCTION__ float __fdividef(float __x, float __y) { return __x / __y; }
__EMULATOR_FUNCTION__ float __saturatef(float __x) { return __x > 0.0f ? (__x < 1.0f ? __x : 1.0f) : 0.0f; }

// ------------------------------------------------------------- arithmetic with a rounding mode
// Round to nearest is exact; the directed modes differ from it in the last bit only.
#define __EMULATOR_ROUNDED__(_mode) \
    __EMULATOR_FUNCTION__ float __fadd_##_mode(float __x, float __y) { return __x + __y; } \
    __EMULATOR_FUNCTION__ float __fsub_##_mode(float __x, float __y) { return __x - __y; } \
    __EMULATOR_FUNCTION__ float __fmul_##_mode(float __x, float __y) { return __x * __y; } \
    __EMULATOR_FUNCTION__ float __fdiv_##_mode(float __x, float __y) { return __x / __y; } \
    __EMULATOR_FUNCTION__ float __fmaf_##_mode(float __x, float __y, float __z) { return fmaf(__x, __y, __z); } \
    __EMULATOR_FUNCTION__ float __frcp_##_mode(float __x) { return 1.0f / __x; } \
    __EMULATOR_FUNCTION__ float __fsqrt_##_mode(float __x) { return sqrtf(__x); } \
    __EMULATOR_FUNCTION__ double __dadd_##_mode(double __x, double __y) { return __x + __y; } \
    __EMULATOR_FUNCTION__ double __dsub_##_mode(double __x, double __y) { return __x - __y; } \
    __EMULATOR_FUNCTION__ double __dmul_##_mode(double __x, double __y) { return __x * __y; } \
    __EMULATOR_FUNCTION__ double __ddiv_##_mode(double __x, double __y) { return __x / __y; } \
    __EMULATOR_FUNCTION__ double __drcp_##_mode(double __x) { return 1.0 / __x; } \
    __EMULATOR_FUNCTION__ double __dsqrt_##_mode(double __x) { return sqrt(__x); } \
    __EMULATOR_FUNCTION__ double __fma_##_mode(double __x, double __y, double __z) { return fma(__x, __y, __z); } \
    __EMULATOR_FUNCTION__ float __int2float_##_mode(int __x) { return static_cast<float>(__x); } \
    __EMULATOR_FUNCTION__ float __uint2float_##_mode(unsigned __x) { return static_cast<float>(__x); } \
    __EMULATOR_FUNCTION__ float __ll2float_##_mode(long long __x) { return static_cast<float>(__x); } \
    __EMULATOR_FUNCTION__ float __ull2float_##_mode(unsigned long long __x) { return static_cast<float>(__x); } \
    __EMULATOR_FUNCTION__ double __ll2double_##_mode(long long __x) { return static_cast<double>(__x); } \
    __EMULATOR_FUNCTION__ double __ull2double_##_mode(unsigned long long __x) { return static_cast<double>(__x); } \
    __EMULATOR_FUNCTION__ float __double2float_##_mode(double __x) { return static_cast<float>(__x); }
__EMULATOR_ROUNDED__(rn)
__EMULATOR_ROUNDED__(rz)
__EMULATOR_ROUNDED__(ru)
__EMULATOR_ROUNDED__(rd)
#undef __EMULATOR_ROUNDED__
__EMULATOR_FUNCTION__ float __frsqrt_rn(float __x) { return rsqrtf(__x); }
__EMULATOR_FUNCTION__ double __int2double_rn(int __x) { return __x; }
__EMULATOR_FUNCTION__ double __uint2double_rn(unsigned __x) { return __x; }

// ------------------------------------------------------------------------------- conversions
namespace __emulator {
// As on the device: out of range goes to the nearest end, NaN to 0 (to the minimum for 64 bits).
template <class _To, class _From>
__EMULATOR_INLINE__ _To __to_integer(_From __x) {
    constexpr _To __low = static_cast<_To>(-1) < 0 ? static_cast<_To>(1ull << (8 * sizeof(_To) - 1)) : 0;
    constexpr _To __high = static_cast<_To>(~__low);
    if (!(__x == __x)) return sizeof(_To) == 8 ? static_cast<_To>(1ull << 63) : 0;
    if (__x <= static_cast<_From>(__low)) return __low;
    if (__x >= static_cast<_From>(__high)) return __high;
    return static_cast<_To>(__x);
}
}  // namespace __emulator
#define __EMULATOR_CONVERSION__(_from, _type, _to, _integer) \
    __EMULATOR_FUNCTION__ _integer __##_from##2##_to##_rn(_type __x) { \
        return ::__emulator::__to_integer<_integer>(__builtin_rint(__x)); \
    } \
    __EMULATOR_FUNCTION__ _integer __##_from##2##_to##_rz(_type __x) { \
        return ::__emulator::__to_integer<_integer>(__builtin_trunc(__x)); \
    } \
    __EMULATOR_FUNCTION__ _integer __##_from##2##_to##_ru(_type __x) { \
        return ::__emulator::__to_integer<_integer>(__builtin_ceil(__x)); \
    } \
    __EMULATOR_FUNCTION__ _integer __##_from##2##_to##_rd(_type __x) { \
        return ::__emulator::__to_integer<_integer>(__builtin_floor(__x)); \
    }
__EMULATOR_CONVERSION__(float, float, int, int)
__EMULATOR_CONVERSION__(float, float, uint, unsigned int)
__EMULATOR_CONVERSION__(float, float, ll, long long)
__EMULATOR_CONVERSION__(float, float, ull, unsigned long long)
__EMULATOR_CONVERSION__(double, double, int, int)
__EMULATOR_CONVERSION__(double, double, uint, unsigned int)
__EMULATOR_CONVERSION__(double, double, ll, long long)
__EMULATOR_CONVERSION__(double, double, ull, unsigned long long)
#undef __EMULATOR_CONVERSION__

#define __EMULATOR_SAME_BITS__(_name, _from, _to) \
    __EMULATOR_FUNCTION__ _to _name(_from __x) { \
        _to __y; \
        memcpy(&__y, &__x, sizeof(__y)); \
        return __y; \
    }
__EMULATOR_SAME_BITS__(__float_as_int, float, int)
__EMULATOR_SAME_BITS__(__int_as_float, int, float)
__EMULATOR_SAME_BITS__(__float_as_uint, float, unsigned int)
__EMULATOR_SAME_BITS__(__uint_as_float, unsigned int, float)
__EMULATOR_SAME_BITS__(__double_as_longlong, double, long long)
__EMULATOR_SAME_BITS__(__longlong_as_double, long long, double)
#undef __EMULATOR_SAME_BITS__
__EMULATOR_FUNCTION__ int __double2hiint(double __x) { return static_cast<int>(__double_as_longlong(__x) >> 32); }
__EMULATOR_FUNCTION__ int __double2loint(double __x) { return static_cast<int>(__double_as_longlong(__x)); }
__EMULATOR_FUNCTION__ double __hiloint2double(int __high, int __low) {
    return __longlong_as_double(static_cast<long long>(static_cast<unsigned long long>(static_cast<unsigned>(__high)) << 32 |
                                                       static_cast<unsigned>(__low)));
}
