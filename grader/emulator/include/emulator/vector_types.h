// char1 ... double4, dim3: aggregates with CUDA's names, members and alignment.
#pragma once

#include "keywords.h"

#define __EMULATOR_VECTOR__(_base, _element, _align2, _align4) \
    struct _base##1 { _element x; }; \
    struct alignas(_align2) _base##2 { _element x, y; }; \
    struct _base##3 { _element x, y, z; }; \
    struct alignas(_align4) _base##4 { _element x, y, z, w; }; \
    static __EMULATOR_INLINE__ constexpr _base##1 make_##_base##1(_element __x) { return {__x}; } \
    static __EMULATOR_INLINE__ constexpr _base##2 make_##_base##2(_element __x, _element __y) { return {__x, __y}; } \
    static __EMULATOR_INLINE__ constexpr _base##3 make_##_base##3(_element __x, _element __y, _element __z) { \
        return {__x, __y, __z}; \
    } \
    static __EMULATOR_INLINE__ constexpr _base##4 make_##_base##4( \
        _element __x, _element __y, _element __z, _element __w) { \
        return {__x, __y, __z, __w}; \
    }

__EMULATOR_VECTOR__(char, signed char, 2, 4)
__EMULATOR_VECTOR__(uchar, unsigned char, 2, 4)
__EMULATOR_VECTOR__(short, short, 4, 8)
__EMULATOR_VECTOR__(ushort, unsigned short, 4, 8)
__EMULATOR_VECTOR__(int, int, 8, 16)
__EMULATOR_VECTOR__(uint, unsigned int, 8, 16)
__EMULATOR_VECTOR__(long, long, 2 * sizeof(long), 16)
__EMULATOR_VECTOR__(ulong, unsigned long, 2 * sizeof(long), 16)
__EMULATOR_VECTOR__(longlong, long long, 16, 16)
__EMULATOR_VECTOR__(ulonglong, unsigned long long, 16, 16)
__EMULATOR_VECTOR__(float, float, 8, 16)
__EMULATOR_VECTOR__(double, double, 16, 16)
#undef __EMULATOR_VECTOR__

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int __x = 1, unsigned int __y = 1, unsigned int __z = 1) : x(__x), y(__y), z(__z) {}
    constexpr dim3(uint3 __v) : x(__v.x), y(__v.y), z(__v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
