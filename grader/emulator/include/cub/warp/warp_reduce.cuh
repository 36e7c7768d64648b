// cub::WarpReduce
#pragma once

#include "../../emulator/group_base.h"
#include "../thread/thread_operators.cuh"

namespace cub {

template <class _Type, int _Threads = 32, int _Architecture = 0>
class WarpReduce {
    static_assert(_Threads > 0 && _Threads <= 32 && (_Threads & (_Threads - 1)) == 0,
                  "the threads of a logical warp must be a power of two up to 32");

public:
    struct TempStorage {};
    __EMULATOR_INLINE__ explicit WarpReduce(TempStorage&) {}

    // The result is for lane 0 of the logical warp.
    template <class _Operator>
    __EMULATOR_INLINE__ _Type Reduce(_Type __value, _Operator __operator, int __valid, __EMULATOR_SITE_AS__(_site)) {
        const int __lane = static_cast<int>(LaneId());
        const int __rank = __lane & (_Threads - 1);
        const unsigned __mask = (_Threads == 32 ? 0xffffffffu : (1u << (_Threads & 31)) - 1) << (__lane - __rank);
        for (int __distance = 1; __distance < _Threads; __distance *= 2) {
            const bool __inside = __rank + __distance < _Threads && __rank + __distance < __valid;
            const _Type __other = ::cooperative_groups::__fetch(
                __mask, __value, __inside ? __lane + __distance : __lane, _site.__line, _site.__file);
            if (__inside) __value = __operator(__value, __other);
        }
        return __value;
    }
    template <class _Operator>
    __EMULATOR_INLINE__ _Type Reduce(_Type __value, _Operator __operator, __EMULATOR_SITE_AS__(_site)) {
        return Reduce(__value, __operator, _Threads, _site);
    }
    __EMULATOR_INLINE__ _Type Sum(_Type __value, int __valid, __EMULATOR_SITE_AS__(_site)) {
        return Reduce(__value, ::cub::Sum(), __valid, _site);
    }
    __EMULATOR_INLINE__ _Type Sum(_Type __value, __EMULATOR_SITE_AS__(_site)) {
        return Reduce(__value, ::cub::Sum(), _Threads, _site);
    }
};

}  // namespace cub
