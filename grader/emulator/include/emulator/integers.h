// Integer intrinsics and the integer overloads of min, max and abs.
#pragma once

#include "keywords.h"


__EMULATOR_FUNCTION__ int __popc(unsigned __x) { return __builtin_popcount(__x); }
__EMULATOR_FUNCTION__ int __popcll(unsigned long long __x) { return __builtin_popcountll(__x); }
__EMULATOR_FUNCTION__ int __clz(int __x) { return __x ? __builtin_clz(static_cast<unsigned>(__x)) : 32; }
__EMULATOR_FUNCTION__ int __clzll(long long __x) {
    return __x ? __builtin_clzll(static_cast<unsigned long long>(__x)) : 64;
}
__EMULATOR_FUNCTION__ int __ffs(int __x) { return __builtin_ffs(__x); }
__EMULATOR_FUNCTION__ int __ffsll(long long __x) { return __builtin_ffsll(__x); }
// The position of the offset-th set bit at or above (below, for a negative offset) `__base`.
__EMULATOR_FUNCTION__ unsigned __fns(unsigned __mask, unsigned __base, int __offset) {
    if (__offset == 0) return __mask >> (__base & 31) & 1 ? __base : 0xffffffffu;
    const int __way = __offset > 0 ? 1 : -1;
    for (int __i = static_cast<int>(__base); __i >= 0 && __i < 32; __i += __way) {
        if ((__mask >> __i & 1) != 0 && (__offset -= __way) == 0) return static_cast<unsigned>(__i);
    }
    return 0xffffffffu;
}
__EMULATOR_FUNCTION__ unsigned __brev(unsigned __x) {
    __x = __x >> 16 | __x << 16;
    __x = (__x & 0xff00ff00u) >> 8 | (__x & 0x00ff00ffu) << 8;
    __x = (__x & 0xf0f0f0f0u) >> 4 | (__x & 0x0f0f0f0fu) << 4;
    __x = (__x & 0xccccccccu) >> 2 | (__x & 0x33333333u) << 2;
    return (__x & 0xaaaaaaaau) >> 1 | (__x & 0x55555555u) << 1;
}
__EMULATOR_FUNCTION__ unsigned long long __brevll(unsigned long long __x) {
    return static_cast<unsigned long long>(__brev(static_cast<unsigned>(__x))) << 32 |
           __brev(static_cast<unsigned>(__x >> 32));
}
__EMULATOR_FUNCTION__ unsigned __byte_perm(unsigned __x, unsigned __y, unsigned __selector) {
    const unsigned long long __bytes = static_cast<unsigned long long>(__y) << 32 | __x;
    unsigned __result = 0;
    for (int __i = 0; __i < 4; ++__i) {
        const unsigned __select = __selector >> (4 * __i);
        unsigned __byte = static_cast<unsigned>(__bytes >> (8 * (__select & 7))) & 0xff;
        if (__select & 8) __byte = __byte & 0x80 ? 0xff : 0;
        __result |= __byte << (8 * __i);
    }
    return __result;
}
__EMULATOR_FUNCTION__ unsigned __funnelshift_l(unsigned __low, unsigned __high, unsigned __shift) {
    const unsigned long long __both = static_cast<unsigned long long>(__high) << 32 | __low;
    return static_cast<unsigned>(__both << (__shift & 31) >> 32);
}
__EMULATOR_FUNCTION__ unsigned __funnelshift_lc(unsigned __low, unsigned __high, unsigned __shift) {
    return __shift >= 32 ? __low : __funnelshift_l(__low, __high, __shift);
}
__EMULATOR_FUNCTION__ unsigned __funnelshift_r(unsigned __low, unsigned __high, unsigned __shift) {
    const unsigned long long __both = static_cast<unsigned long long>(__high) << 32 | __low;
    return static_cast<unsigned>(__both >> (__shift & 31));
}
__EMULATOR_FUNCTION__ unsigned __funnelshift_rc(unsigned __low, unsigned __high, unsigned __shift) {
    return __shift >= 32 ? __high : __funnelshift_r(__low, __high, __shift);
}
__EMULATOR_FUNCTION__ int __mulhi(int __x, int __y) { return static_cast<int>(1ll * __x * __y >> 32); }
__EMULATOR_FUNCTION__ unsigned __umulhi(unsigned __x, unsigned __y) {
    return static_cast<unsigned>(1ull * __x * __y >> 32);
}
__extension__ typedef __int128 __emulator_int128;
__extension__ typedef unsigned __int128 __emulator_uint128;
__EMULATOR_FUNCTION__ long long __mul64hi(long long __x, long long __y) {
    return static_cast<long long>(static_cast<__emulator_int128>(__x) * __y >> 64);
}
__EMULATOR_FUNCTION__ unsigned long long __umul64hi(unsigned long long __x, unsigned long long __y) {
    return static_cast<unsigned long long>(static_cast<__emulator_uint128>(__x) * __y >> 64);
}
__EMULATOR_FUNCTION__ int __mul24(int __x, int __y) { return (__x << 8 >> 8) * (__y << 8 >> 8); }
__EMULATOR_FUNCTION__ unsigned __umul24(unsigned __x, unsigned __y) { return (__x & 0xffffff) * (__y & 0xffffff); }
__EMULATOR_FUNCTION__ unsigned __sad(int __x, int __y, unsigned __z) {
    return __z + (__x < __y ? static_cast<unsigned>(__y) - static_cast<unsigned>(__x)
                            : static_cast<unsigned>(__x) - static_cast<unsigned>(__y));
}
__EMULATOR_FUNCTION__ unsigned __usad(unsigned __x, unsigned __y, unsigned __z) {
    return __z + (__x < __y ? __y - __x : __x - __y);
}
__EMULATOR_FUNCTION__ int __hadd(int __x, int __y) { return static_cast<int>((1ll * __x + __y) >> 1); }
__EMULATOR_FUNCTION__ int __rhadd(int __x, int __y) { return static_cast<int>((1ll * __x + __y + 1) >> 1); }
__EMULATOR_FUNCTION__ int __dp4a(int __a, int __b, int __c) {
    for (int __i = 0; __i < 4; ++__i)
        __c += static_cast<signed char>(__a >> (8 * __i)) * static_cast<signed char>(__b >> (8 * __i));
    return __c;
}
__EMULATOR_FUNCTION__ unsigned __dp4a(unsigned __a, unsigned __b, unsigned __c) {
    for (int __i = 0; __i < 4; ++__i) __c += (__a >> (8 * __i) & 0xff) * (__b >> (8 * __i) & 0xff);
    return __c;
}

// The overloads, and no others, that CUDA has; the result of mixed signedness is unsigned.
#define __EMULATOR_MINMAX__(_result, _left, _right) \
    __EMULATOR_FUNCTION__ constexpr _result min(_left __x, _right __y) { \
        return static_cast<_result>(__y) < static_cast<_result>(__x) ? static_cast<_result>(__y) \
                                                                     : static_cast<_result>(__x); \
    } \
    __EMULATOR_FUNCTION__ constexpr _result max(_left __x, _right __y) { \
        return static_cast<_result>(__x) < static_cast<_result>(__y) ? static_cast<_result>(__y) \
                                                                     : static_cast<_result>(__x); \
    }
__EMULATOR_MINMAX__(int, int, int)
__EMULATOR_MINMAX__(unsigned int, unsigned int, unsigned int)
__EMULATOR_MINMAX__(unsigned int, int, unsigned int)
__EMULATOR_MINMAX__(unsigned int, unsigned int, int)
__EMULATOR_MINMAX__(long, long, long)
__EMULATOR_MINMAX__(unsigned long, unsigned long, unsigned long)
__EMULATOR_MINMAX__(unsigned long, long, unsigned long)
__EMULATOR_MINMAX__(unsigned long, unsigned long, long)
__EMULATOR_MINMAX__(long long, long long, long long)
__EMULATOR_MINMAX__(unsigned long long, unsigned long long, unsigned long long)
__EMULATOR_MINMAX__(unsigned long long, long long, unsigned long long)
__EMULATOR_MINMAX__(unsigned long long, unsigned long long, long long)
#undef __EMULATOR_MINMAX__
__EMULATOR_FUNCTION__ unsigned umin(unsigned __x, unsigned __y) { return __x < __y ? __x : __y; }
__EMULATOR_FUNCTION__ unsigned umax(unsigned __x, unsigned __y) { return __x < __y ? __y : __x; }
__EMULATOR_FUNCTION__ long long llmin(long long __x, long long __y) { return __x < __y ? __x : __y; }
__EMULATOR_FUNCTION__ long long llmax(long long __x, long long __y) { return __x < __y ? __y : __x; }
__EMULATOR_FUNCTION__ unsigned long long ullmin(unsigned long long __x, unsigned long long __y) {
    return __x < __y ? __x : __y;
}
__EMULATOR_FUNCTION__ unsigned long long ullmax(unsigned long long __x, unsigned long long __y) {
    return __x < __y ? __y : __x;
}
