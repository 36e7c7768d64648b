// half and half2.
#pragma once

#include "emulator/small_float.h"

__EMULATOR_SMALL_FLOAT__(__half, __half2, __float_to_half, __half_to_float)
typedef __half half;
typedef __half2 half2;

__EMULATOR_FUNCTION__ __half __float2half(float __x) { return __half(__x); }
__EMULATOR_FUNCTION__ __half __float2half_rn(float __x) { return __half(__x); }
__EMULATOR_FUNCTION__ __half __double2half(double __x) { return __half(__x); }
__EMULATOR_FUNCTION__ __half __int2half_rn(int __x) { return __half(__x); }
__EMULATOR_FUNCTION__ float __half2float(__half __x) { return __x; }
__EMULATOR_FUNCTION__ int __half2int_rn(__half __x) { return __float2int_rn(__x); }
__EMULATOR_FUNCTION__ __half2 __float2half2_rn(float __x) { return __half2(__x, __x); }
__EMULATOR_FUNCTION__ __half2 __floats2half2_rn(float __x, float __y) { return __half2(__x, __y); }
__EMULATOR_FUNCTION__ __half2 __float22half2_rn(float2 __x) { return __half2(__x.x, __x.y); }
__EMULATOR_FUNCTION__ float2 __half22float2(__half2 __x) { return make_float2(__x.x, __x.y); }
__EMULATOR_FUNCTION__ __half2 __half2half2(__half __x) { return __half2(__x, __x); }
__EMULATOR_FUNCTION__ __half2 __halves2half2(__half __x, __half __y) { return __half2(__x, __y); }
__EMULATOR_FUNCTION__ __half2 make_half2(__half __x, __half __y) { return __half2(__x, __y); }
__EMULATOR_FUNCTION__ __half __low2half(__half2 __x) { return __x.x; }
__EMULATOR_FUNCTION__ __half __high2half(__half2 __x) { return __x.y; }
__EMULATOR_FUNCTION__ float __low2float(__half2 __x) { return __x.x; }
__EMULATOR_FUNCTION__ float __high2float(__half2 __x) { return __x.y; }
__EMULATOR_FUNCTION__ unsigned short __half_as_ushort(__half __x) { return __x.__bits; }
__EMULATOR_FUNCTION__ __half __ushort_as_half(unsigned short __bits) {
    __half __x;
    __x.__bits = __bits;
    return __x;
}
