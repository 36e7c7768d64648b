// __nv_bfloat16 and __nv_bfloat162.
#pragma once

#include "emulator/small_float.h"

__EMULATOR_SMALL_FLOAT__(__nv_bfloat16, __nv_bfloat162, __float_to_bfloat16, __bfloat16_to_float)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

__EMULATOR_FUNCTION__ __nv_bfloat16 __float2bfloat16(float __x) { return __nv_bfloat16(__x); }
__EMULATOR_FUNCTION__ __nv_bfloat16 __float2bfloat16_rn(float __x) { return __nv_bfloat16(__x); }
__EMULATOR_FUNCTION__ float __bfloat162float(__nv_bfloat16 __x) { return __x; }
__EMULATOR_FUNCTION__ __nv_bfloat162 __float2bfloat162_rn(float __x) { return __nv_bfloat162(__x, __x); }
__EMULATOR_FUNCTION__ __nv_bfloat162 __floats2bfloat162_rn(float __x, float __y) { return __nv_bfloat162(__x, __y); }
__EMULATOR_FUNCTION__ __nv_bfloat162 __float22bfloat162_rn(float2 __x) { return __nv_bfloat162(__x.x, __x.y); }
__EMULATOR_FUNCTION__ float2 __bfloat1622float2(__nv_bfloat162 __x) { return make_float2(__x.x, __x.y); }
__EMULATOR_FUNCTION__ __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 __x) { return __nv_bfloat162(__x, __x); }
__EMULATOR_FUNCTION__ __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 __x, __nv_bfloat16 __y) {
    return __nv_bfloat162(__x, __y);
}
__EMULATOR_FUNCTION__ float __low2float(__nv_bfloat162 __x) { return __x.x; }
__EMULATOR_FUNCTION__ float __high2float(__nv_bfloat162 __x) { return __x.y; }
__EMULATOR_FUNCTION__ unsigned short __bfloat16_as_ushort(__nv_bfloat16 __x) { return __x.__bits; }
