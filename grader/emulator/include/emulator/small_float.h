// The 16-bit floating-point types, built on conversions to and from float.
#pragma once

#include "../cuda_runtime.h"

namespace __emulator {

__EMULATOR_INLINE__ unsigned short __float_to_bfloat16(float __x) {
    const unsigned __bits = __float_as_uint(__x);
    if (__x != __x) return 0x7fff;
    return static_cast<unsigned short>((__bits + 0x7fff + (__bits >> 16 & 1)) >> 16);
}
__EMULATOR_INLINE__ float __bfloat16_to_float(unsigned short __bits) {
    return __uint_as_float(static_cast<unsigned>(__bits) << 16);
}
inline unsigned short __float_to_half(float __x) {
    const unsigned __bits = __float_as_uint(__x);
    const unsigned __sign = __bits >> 16 & 0x8000;
    const unsigned __magnitude = __bits & 0x7fffffff;
    if (__magnitude > 0x7f800000) return 0x7fff;
    if (__magnitude >= 0x477ff000) return static_cast<unsigned short>(__sign | 0x7c00);
    if (__magnitude < 0x38800000) {  // subnormal: let the addition round
        const unsigned __rounded = __float_as_uint(__uint_as_float(__magnitude) + 0.5f) - 0x3f000000;
        return static_cast<unsigned short>(__sign | __rounded);
    }
    return static_cast<unsigned short>(__sign | ((__magnitude + 0xfff + (__magnitude >> 13 & 1) - 0x38000000) >> 13));
}
inline float __half_to_float(unsigned short __bits) {
    const unsigned __sign = static_cast<unsigned>(__bits & 0x8000) << 16;
    const unsigned __magnitude = __bits & 0x7fff;
    if (__magnitude >= 0x7c00) return __uint_as_float(__sign | 0x7f800000 | (__magnitude & 0x3ff) << 13);
    if (__magnitude >= 0x0400) return __uint_as_float(__sign | ((__magnitude << 13) + 0x38000000));
    const float __tiny = static_cast<float>(__magnitude) * 5.9604644775390625e-8f;
    return __uint_as_float(__sign | __float_as_uint(__tiny));
}

}  // namespace __emulator

// A 16-bit type `_name`, its pair `_pair`, their arithmetic and comparisons; every operation rounds once.
#define __EMULATOR_SMALL_FLOAT__(_name, _pair, _encode, _decode) \
    struct _name { \
        unsigned short __bits; \
        _name() = default; \
        _name(float __x) : __bits(::__emulator::_encode(__x)) {} \
        _name(double __x) : _name(static_cast<float>(__x)) {} \
        _name(int __x) : _name(static_cast<float>(__x)) {} \
        _name(unsigned __x) : _name(static_cast<float>(__x)) {} \
        _name(long long __x) : _name(static_cast<float>(__x)) {} \
        operator float() const { return ::__emulator::_decode(__bits); } \
        _name& operator+=(_name __y) { return *this = _name(float(*this) + float(__y)); } \
        _name& operator-=(_name __y) { return *this = _name(float(*this) - float(__y)); } \
        _name& operator*=(_name __y) { return *this = _name(float(*this) * float(__y)); } \
        _name& operator/=(_name __y) { return *this = _name(float(*this) / float(__y)); } \
    }; \
    struct alignas(4) _pair { \
        _name x, y; \
        _pair() = default; \
        _pair(_name __x, _name __y) : x(__x), y(__y) {} \
    }; \
    __EMULATOR_FUNCTION__ _name operator+(_name __x, _name __y) { return _name(float(__x) + float(__y)); } \
    __EMULATOR_FUNCTION__ _name operator-(_name __x, _name __y) { return _name(float(__x) - float(__y)); } \
    __EMULATOR_FUNCTION__ _name operator*(_name __x, _name __y) { return _name(float(__x) * float(__y)); } \
    __EMULATOR_FUNCTION__ _name operator/(_name __x, _name __y) { return _name(float(__x) / float(__y)); } \
    __EMULATOR_FUNCTION__ _name operator-(_name __x) { return _name(-float(__x)); } \
    __EMULATOR_FUNCTION__ bool operator<(_name __x, _name __y) { return float(__x) < float(__y); } \
    __EMULATOR_FUNCTION__ bool operator>(_name __x, _name __y) { return float(__x) > float(__y); } \
    __EMULATOR_FUNCTION__ bool operator<=(_name __x, _name __y) { return float(__x) <= float(__y); } \
    __EMULATOR_FUNCTION__ bool operator>=(_name __x, _name __y) { return float(__x) >= float(__y); } \
    __EMULATOR_FUNCTION__ bool operator==(_name __x, _name __y) { return float(__x) == float(__y); } \
    __EMULATOR_FUNCTION__ bool operator!=(_name __x, _name __y) { return float(__x) != float(__y); } \
    __EMULATOR_FUNCTION__ _name __hadd(_name __x, _name __y) { return __x + __y; } \
    __EMULATOR_FUNCTION__ _name __hsub(_name __x, _name __y) { return __x - __y; } \
    __EMULATOR_FUNCTION__ _name __hmul(_name __x, _name __y) { return __x * __y; } \
    __EMULATOR_FUNCTION__ _name __hdiv(_name __x, _name __y) { return __x / __y; } \
    __EMULATOR_FUNCTION__ _name __hneg(_name __x) { return -__x; } \
    __EMULATOR_FUNCTION__ _name __habs(_name __x) { return _name(fabsf(__x)); } \
    __EMULATOR_FUNCTION__ _name __hmax(_name __x, _name __y) { return _name(fmaxf(__x, __y)); } \
    __EMULATOR_FUNCTION__ _name __hmin(_name __x, _name __y) { return _name(fminf(__x, __y)); } \
    __EMULATOR_FUNCTION__ _name __hfma(_name __x, _name __y, _name __z) { return _name(fmaf(__x, __y, __z)); } \
    __EMULATOR_FUNCTION__ bool __hlt(_name __x, _name __y) { return __x < __y; } \
    __EMULATOR_FUNCTION__ bool __hgt(_name __x, _name __y) { return __x > __y; } \
    __EMULATOR_FUNCTION__ bool __hle(_name __x, _name __y) { return __x <= __y; } \
    __EMULATOR_FUNCTION__ bool __hge(_name __x, _name __y) { return __x >= __y; } \
    __EMULATOR_FUNCTION__ bool __heq(_name __x, _name __y) { return __x == __y; } \
    __EMULATOR_FUNCTION__ bool __hne(_name __x, _name __y) { return __x != __y; } \
    __EMULATOR_FUNCTION__ bool __hisnan(_name __x) { return float(__x) != float(__x); } \
    __EMULATOR_FUNCTION__ int __hisinf(_name __x) { return fabsf(__x) == INFINITY ? (float(__x) > 0 ? 1 : -1) : 0; } \
    __EMULATOR_FUNCTION__ _name hexp(_name __x) { return _name(expf(__x)); } \
    __EMULATOR_FUNCTION__ _name hlog(_name __x) { return _name(logf(__x)); } \
    __EMULATOR_FUNCTION__ _name hsqrt(_name __x) { return _name(sqrtf(__x)); } \
    __EMULATOR_FUNCTION__ _name hrsqrt(_name __x) { return _name(rsqrtf(__x)); } \
    __EMULATOR_FUNCTION__ _name hrcp(_name __x) { return _name(1.0f / float(__x)); } \
    __EMULATOR_FUNCTION__ _pair __hadd2(_pair __x, _pair __y) { return _pair(__x.x + __y.x, __x.y + __y.y); } \
    __EMULATOR_FUNCTION__ _pair __hsub2(_pair __x, _pair __y) { return _pair(__x.x - __y.x, __x.y - __y.y); } \
    __EMULATOR_FUNCTION__ _pair __hmul2(_pair __x, _pair __y) { return _pair(__x.x * __y.x, __x.y * __y.y); } \
    __EMULATOR_FUNCTION__ _pair __h2div(_pair __x, _pair __y) { return _pair(__x.x / __y.x, __x.y / __y.y); } \
    __EMULATOR_FUNCTION__ _pair __hfma2(_pair __x, _pair __y, _pair __z) { \
        return _pair(__hfma(__x.x, __y.x, __z.x), __hfma(__x.y, __y.y, __z.y)); \
    } \
    __EMULATOR_FUNCTION__ _pair __hmax2(_pair __x, _pair __y) { return _pair(__hmax(__x.x, __y.x), __hmax(__x.y, __y.y)); } \
    __EMULATOR_FUNCTION__ _pair __hmin2(_pair __x, _pair __y) { return _pair(__hmin(__x.x, __y.x), __hmin(__x.y, __y.y)); } \
    __EMULATOR_FUNCTION__ _pair operator+(_pair __x, _pair __y) { return __hadd2(__x, __y); } \
    __EMULATOR_FUNCTION__ _pair operator-(_pair __x, _pair __y) { return __hsub2(__x, __y); } \
    __EMULATOR_FUNCTION__ _pair operator*(_pair __x, _pair __y) { return __hmul2(__x, __y); } \
    __EMULATOR_FUNCTION__ _pair operator/(_pair __x, _pair __y) { return __h2div(__x, __y); } \
    __EMULATOR_FUNCTION__ _name atomicAdd(_name* __address, _name __value) { \
        return ::__emulator::__atomic_small(__address, __value); \
    } \
    __EMULATOR_FUNCTION__ _pair atomicAdd(_pair* __address, _pair __value) { \
        return _pair(atomicAdd(&__address->x, __value.x), atomicAdd(&__address->y, __value.y)); \
    }

namespace __emulator {
template <class _Type>
__EMULATOR_INLINE__ _Type __atomic_small(_Type* __address, _Type __value) {
    __emulator_atomic(__address, false);
    volatile unsigned short* __cell = &__address->__bits;
    _Type __old;
    __old.__bits = *__cell;
    *__cell = (__old + __value).__bits;
    return __old;
}
}  // namespace __emulator
