// cub::BlockReduce
#pragma once

#include "../../emulator/collective.h"
#include "../thread/thread_operators.cuh"

namespace cub {

enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS,
    BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC
};

// As in CUB: the result is for thread 0 alone, and the storage must not be used again before a
// __syncthreads().
template <class _Type, int _BlockX, BlockReduceAlgorithm _Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int _BlockY = 1,
          int _BlockZ = 1, int _Architecture = 0>
class BlockReduce {
    static constexpr int __threads = _BlockX * _BlockY * _BlockZ;
    using __storage = ::__emulator::__slots<_Type, (__threads + 31) / 32>;

public:
    struct TempStorage : __storage {};
    __EMULATOR_INLINE__ explicit BlockReduce(TempStorage& __temporary) : __temporary_(__temporary) {}
    __EMULATOR_INLINE__ BlockReduce() : __temporary_(__own()) {}

    template <class _Operator>
    __EMULATOR_INLINE__ _Type Reduce(_Type __value, _Operator __operator, int __valid, __EMULATOR_SITE_AS__(_site)) {
        const int __rank = static_cast<int>(::__emulator::__thread_rank());
        const int __lane = __rank & 31;
        const int __first = __rank - __lane;  // of this warp
        const int __limit = __valid < __threads ? __valid : __threads;
        for (int __distance = 1; __distance < 32; __distance *= 2) {
            const bool __inside = __lane + __distance < 32 && __rank + __distance < __limit;
            const _Type __other = ::cooperative_groups::__fetch(
                0xffffffffu, __value, __inside ? __lane + __distance : __lane, _site.__line, _site.__file);
            if (__inside) __value = __operator(__value, __other);
        }
        if (__threads <= 32) return __value;
        if (__lane == 0) __temporary_[__first / 32] = __value;
        ::__emulator::__meet(0, _site);
        if (__rank == 0) {
            for (int __warp = 1; __warp * 32 < __limit; ++__warp) {
                __value = __operator(__value, static_cast<_Type>(__temporary_[__warp]));
            }
        }
        return __value;
    }
    template <class _Operator>
    __EMULATOR_INLINE__ _Type Reduce(_Type __value, _Operator __operator, __EMULATOR_SITE_AS__(_site)) {
        return Reduce(__value, __operator, __threads, _site);
    }
    template <int _Items, class _Operator>
    __EMULATOR_INLINE__ _Type Reduce(_Type (&__values)[_Items], _Operator __operator, __EMULATOR_SITE_AS__(_site)) {
        _Type __sum = __values[0];
        for (int __i = 1; __i < _Items; ++__i) __sum = __operator(__sum, __values[__i]);
        return Reduce(__sum, __operator, __threads, _site);
    }
    __EMULATOR_INLINE__ _Type Sum(_Type __value, __EMULATOR_SITE_AS__(_site)) {
        return Reduce(__value, ::cub::Sum(), __threads, _site);
    }
    __EMULATOR_INLINE__ _Type Sum(_Type __value, int __valid, __EMULATOR_SITE_AS__(_site)) {
        return Reduce(__value, ::cub::Sum(), __valid, _site);
    }
    template <int _Items>
    __EMULATOR_INLINE__ _Type Sum(_Type (&__values)[_Items], __EMULATOR_SITE_AS__(_site)) {
        return Reduce(__values, ::cub::Sum(), _site);
    }

private:
    static TempStorage& __own() {
        __shared__ TempStorage __private_storage;
        return __private_storage;
    }
    TempStorage& __temporary_;
};

}  // namespace cub
