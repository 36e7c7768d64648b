// CUB's function objects.
#pragma once

#include "../../cuda_runtime.h"

namespace cub {

#define __EMULATOR_OPERATOR__(_name, _expression) \
    struct _name { \
        template <class _Left, class _Right> \
        constexpr auto operator()(const _Left& __x, const _Right& __y) const { \
            return _expression; \
        } \
    };
__EMULATOR_OPERATOR__(Sum, __x + __y)
__EMULATOR_OPERATOR__(Max, __x < __y ? __y : __x)
__EMULATOR_OPERATOR__(Min, __y < __x ? __y : __x)
__EMULATOR_OPERATOR__(Equality, __x == __y)
__EMULATOR_OPERATOR__(Inequality, !(__x == __y))
__EMULATOR_OPERATOR__(ArgMax, __x.value < __y.value || (__x.value == __y.value && __y.key < __x.key) ? __y : __x)
__EMULATOR_OPERATOR__(ArgMin, __y.value < __x.value || (__x.value == __y.value && __y.key < __x.key) ? __y : __x)
#undef __EMULATOR_OPERATOR__

template <class _Key, class _Value>
struct KeyValuePair {
    using Key = _Key;
    using Value = _Value;
    _Key key;
    _Value value;
};

static __EMULATOR_INLINE__ unsigned int LaneId() { return ::__emulator::__thread_rank() & 31; }
static __EMULATOR_INLINE__ void CTA_SYNC() { __syncthreads(); }
static __EMULATOR_INLINE__ void WARP_SYNC(unsigned int __mask) { __syncwarp(__mask); }
static __EMULATOR_INLINE__ unsigned int WarpId() { return ::__emulator::__thread_rank() / 32; }

}  // namespace cub
