// cub::WarpScan
#pragma once

#include "../../emulator/group_base.h"
#include "../thread/thread_operators.cuh"

namespace cub {

template <class _Type, int _Threads = 32, int _Architecture = 0>
class WarpScan {
    static_assert(_Threads > 0 && _Threads <= 32 && (_Threads & (_Threads - 1)) == 0,
                  "the threads of a logical warp must be a power of two up to 32");

public:
    struct TempStorage {};
    __EMULATOR_INLINE__ explicit WarpScan(TempStorage&) {}

    template <class _Operator>
    __EMULATOR_INLINE__ void InclusiveScan(_Type __input, _Type& __output, _Operator __operator,
                                           __EMULATOR_SITE_AS__(_site)) {
        const int __lane = static_cast<int>(LaneId());
        const int __rank = __lane & (_Threads - 1);
        for (int __distance = 1; __distance < _Threads; __distance *= 2) {
            const _Type __other = __from(__input, __rank >= __distance ? __lane - __distance : __lane, _site);
            if (__rank >= __distance) __input = __operator(__other, __input);
        }
        __output = __input;
    }
    template <class _Operator>
    __EMULATOR_INLINE__ void InclusiveScan(_Type __input, _Type& __output, _Operator __operator, _Type& __total,
                                           __EMULATOR_SITE_AS__(_site)) {
        InclusiveScan(__input, __output, __operator, _site);
        __total = __from(__output, static_cast<int>(LaneId()) | (_Threads - 1), _site);
    }
    template <class _Operator>
    __EMULATOR_INLINE__ void ExclusiveScan(_Type __input, _Type& __output, _Type __initial, _Operator __operator,
                                           __EMULATOR_SITE_AS__(_site)) {
        _Type __sum;
        InclusiveScan(__input, __sum, __operator, _site);
        const int __lane = static_cast<int>(LaneId());
        const bool __first = (__lane & (_Threads - 1)) == 0;
        const _Type __before = __from(__sum, __first ? __lane : __lane - 1, _site);
        __output = __first ? __initial : static_cast<_Type>(__operator(__initial, __before));
    }
    template <class _Operator>
    __EMULATOR_INLINE__ void ExclusiveScan(_Type __input, _Type& __output, _Type __initial, _Operator __operator,
                                           _Type& __total, __EMULATOR_SITE_AS__(_site)) {
        ExclusiveScan(__input, __output, __initial, __operator, _site);
        __total = __from(static_cast<_Type>(__operator(__output, __input)),
                         static_cast<int>(LaneId()) | (_Threads - 1), _site);
    }
    __EMULATOR_INLINE__ void InclusiveSum(_Type __input, _Type& __output, __EMULATOR_SITE_AS__(_site)) {
        InclusiveScan(__input, __output, ::cub::Sum(), _site);
    }
    __EMULATOR_INLINE__ void InclusiveSum(_Type __input, _Type& __output, _Type& __total,
                                          __EMULATOR_SITE_AS__(_site)) {
        InclusiveScan(__input, __output, ::cub::Sum(), __total, _site);
    }
    __EMULATOR_INLINE__ void ExclusiveSum(_Type __input, _Type& __output, __EMULATOR_SITE_AS__(_site)) {
        ExclusiveScan(__input, __output, _Type{}, ::cub::Sum(), _site);
    }
    __EMULATOR_INLINE__ void ExclusiveSum(_Type __input, _Type& __output, _Type& __total,
                                          __EMULATOR_SITE_AS__(_site)) {
        ExclusiveScan(__input, __output, _Type{}, ::cub::Sum(), __total, _site);
    }
    __EMULATOR_INLINE__ _Type Broadcast(_Type __input, unsigned int __source, __EMULATOR_SITE_AS__(_site)) {
        const int __first = static_cast<int>(LaneId()) & ~(_Threads - 1);
        return __from(__input, __first + static_cast<int>(__source), _site);
    }

private:
    __EMULATOR_INLINE__ _Type __from(_Type __value, int __lane, ::__emulator::__site _site) {
        const unsigned __ones = _Threads == 32 ? 0xffffffffu : (1u << (_Threads & 31)) - 1;
        return ::cooperative_groups::__fetch(__ones << (LaneId() & ~(_Threads - 1)), __value, __lane, _site.__line,
                                             _site.__file);
    }
};

}  // namespace cub
