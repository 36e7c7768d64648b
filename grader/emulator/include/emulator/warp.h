// Warp-level primitives: shuffles, votes, matches, reductions.
#pragma once

#include "builtins.h"
#include "operations.h"

extern "C" {
// `__operation` is one of the codes below, with the shuffle width in the bits above 8.
unsigned long long __emulator_warp(int __operation, unsigned __mask, unsigned long long __value, int __source,
                                   int __line, const char* __file);
unsigned __emulator_active_mask(int __line, const char* __file);
}

namespace __emulator {

template <class _Type>
__EMULATOR_INLINE__ unsigned long long __to_bits(const _Type& __value) {
    static_assert(sizeof(_Type) <= 8, "a warp shuffle moves values of at most 8 bytes");
    unsigned long long __bits = 0;
    __builtin_memcpy(&__bits, &__value, sizeof(_Type));
    return __bits;
}
template <class _Type>
__EMULATOR_INLINE__ _Type __from_bits(unsigned long long __bits) {
    _Type __value;
    __builtin_memcpy(static_cast<void*>(&__value), &__bits, sizeof(_Type));
    return __value;
}
template <class _Type>
__EMULATOR_INLINE__ _Type __shuffle(int __operation, unsigned __mask, const _Type& __value, int __source, int __width,
                                    int __line, const char* __file) {
    return __from_bits<_Type>(
        __emulator_warp(__operation | (__width << 8), __mask, __to_bits(__value), __source, __line, __file));
}
__EMULATOR_INLINE__ unsigned long long __collect(int __operation, unsigned __mask, unsigned long long __value,
                                                 int __line, const char* __file) {
    return __emulator_warp(__operation | (32 << 8), __mask, __value, 0, __line, __file);
}
}  // namespace __emulator

template <class _Type>
__EMULATOR_INLINE__ _Type __shfl_sync(unsigned __mask, _Type __value, int __source, int __width = 32,
                                      __EMULATOR_SITE__) {
    return ::__emulator::__shuffle(__EMULATOR_SHFL, __mask, __value, __source, __width, __line, __file);
}
template <class _Type>
__EMULATOR_INLINE__ _Type __shfl_up_sync(unsigned __mask, _Type __value, unsigned __delta, int __width = 32,
                                         __EMULATOR_SITE__) {
    return ::__emulator::__shuffle(__EMULATOR_SHFL_UP, __mask, __value, static_cast<int>(__delta), __width, __line,
                                   __file);
}
template <class _Type>
__EMULATOR_INLINE__ _Type __shfl_down_sync(unsigned __mask, _Type __value, unsigned __delta, int __width = 32,
                                           __EMULATOR_SITE__) {
    return ::__emulator::__shuffle(__EMULATOR_SHFL_DOWN, __mask, __value, static_cast<int>(__delta), __width, __line,
                                   __file);
}
template <class _Type>
__EMULATOR_INLINE__ _Type __shfl_xor_sync(unsigned __mask, _Type __value, int __lanes, int __width = 32,
                                          __EMULATOR_SITE__) {
    return ::__emulator::__shuffle(__EMULATOR_SHFL_XOR, __mask, __value, __lanes, __width, __line, __file);
}

__EMULATOR_INLINE__ void __syncwarp(unsigned __mask = 0xffffffffu, __EMULATOR_SITE__) {
    ::__emulator::__collect(__EMULATOR_SYNCWARP, __mask, 0, __line, __file);
}
__EMULATOR_INLINE__ unsigned __activemask(__EMULATOR_SITE__) { return __emulator_active_mask(__line, __file); }
__EMULATOR_INLINE__ unsigned __ballot_sync(unsigned __mask, int __predicate, __EMULATOR_SITE__) {
    return static_cast<unsigned>(
        ::__emulator::__collect(__EMULATOR_BALLOT, __mask, __predicate != 0, __line, __file));
}
__EMULATOR_INLINE__ int __any_sync(unsigned __mask, int __predicate, __EMULATOR_SITE__) {
    return ::__emulator::__collect(__EMULATOR_ANY, __mask, __predicate != 0, __line, __file) != 0;
}
__EMULATOR_INLINE__ int __all_sync(unsigned __mask, int __predicate, __EMULATOR_SITE__) {
    return ::__emulator::__collect(__EMULATOR_ALL, __mask, __predicate != 0, __line, __file) != 0;
}
__EMULATOR_INLINE__ int __uni_sync(unsigned __mask, int __predicate, __EMULATOR_SITE__) {
    unsigned long long __set = ::__emulator::__collect(__EMULATOR_BALLOT, __mask, __predicate != 0, __line, __file);
    return __set == 0 || (__set & __mask) == __mask;
}
template <class _Type>
__EMULATOR_INLINE__ unsigned __match_any_sync(unsigned __mask, _Type __value, __EMULATOR_SITE__) {
    return static_cast<unsigned>(
        ::__emulator::__collect(__EMULATOR_MATCH_ANY, __mask, ::__emulator::__to_bits(__value), __line, __file));
}
template <class _Type>
__EMULATOR_INLINE__ unsigned __match_all_sync(unsigned __mask, _Type __value, int* __predicate, __EMULATOR_SITE__) {
    unsigned __same = static_cast<unsigned>(
        ::__emulator::__collect(__EMULATOR_MATCH_ALL, __mask, ::__emulator::__to_bits(__value), __line, __file));
    *__predicate = __same != 0;
    return __same;
}

#define __EMULATOR_REDUCE__(_name, _type, _operation) \
    __EMULATOR_INLINE__ _type _name(unsigned __mask, _type __value, __EMULATOR_SITE__) { \
        return static_cast<_type>( \
            ::__emulator::__collect(_operation, __mask, static_cast<unsigned>(__value), __line, __file)); \
    }
__EMULATOR_REDUCE__(__reduce_add_sync, unsigned, __EMULATOR_REDUCE_ADD)
__EMULATOR_REDUCE__(__reduce_add_sync, int, __EMULATOR_REDUCE_ADD)
__EMULATOR_REDUCE__(__reduce_min_sync, unsigned, __EMULATOR_REDUCE_UMIN)
__EMULATOR_REDUCE__(__reduce_min_sync, int, __EMULATOR_REDUCE_MIN)
__EMULATOR_REDUCE__(__reduce_max_sync, unsigned, __EMULATOR_REDUCE_UMAX)
__EMULATOR_REDUCE__(__reduce_max_sync, int, __EMULATOR_REDUCE_MAX)
__EMULATOR_REDUCE__(__reduce_and_sync, unsigned, __EMULATOR_REDUCE_AND)
__EMULATOR_REDUCE__(__reduce_or_sync, unsigned, __EMULATOR_REDUCE_OR)
__EMULATOR_REDUCE__(__reduce_xor_sync, unsigned, __EMULATOR_REDUCE_XOR)
#undef __EMULATOR_REDUCE__
