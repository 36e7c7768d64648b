// cub::BlockScan
#pragma once

#include "../../emulator/collective.h"
#include "../warp/warp_scan.cuh"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class _Type, int _BlockX, BlockScanAlgorithm _Algorithm = BLOCK_SCAN_RAKING, int _BlockY = 1, int _BlockZ = 1,
          int _Architecture = 0>
class BlockScan {
    static constexpr int __threads = _BlockX * _BlockY * _BlockZ;
    static constexpr int __warps = (__threads + 31) / 32;
    using __storage = ::__emulator::__slots<_Type, __warps>;

public:
    struct TempStorage : __storage {};
    __EMULATOR_INLINE__ explicit BlockScan(TempStorage& __temporary) : __temporary_(__temporary) {}
    __EMULATOR_INLINE__ BlockScan() : __temporary_(__own()) {}

    // ----------------------------------------------------------------------------------- scans
    template <class _Operator>
    __EMULATOR_INLINE__ void InclusiveScan(_Type __input, _Type& __output, _Operator __operator,
                                           __EMULATOR_SITE_AS__(_site)) {
        _Type __total;
        InclusiveScan(__input, __output, __operator, __total, _site);
    }
    template <class _Operator>
    __EMULATOR_INLINE__ void InclusiveScan(_Type __input, _Type& __output, _Operator __operator, _Type& __total,
                                           __EMULATOR_SITE_AS__(_site)) {
        bool __any = false;
        const _Type __before = __prefix(__input, __output, __operator, __total, __any, _site);
        if (__any) __output = __operator(__before, __output);
    }
    template <class _Operator>
    __EMULATOR_INLINE__ void ExclusiveScan(_Type __input, _Type& __output, _Type __initial, _Operator __operator,
                                           __EMULATOR_SITE_AS__(_site)) {
        _Type __total;
        ExclusiveScan(__input, __output, __initial, __operator, __total, _site);
    }
    template <class _Operator>
    __EMULATOR_INLINE__ void ExclusiveScan(_Type __input, _Type& __output, _Type __initial, _Operator __operator,
                                           _Type& __total, __EMULATOR_SITE_AS__(_site)) {
        bool __any = false;
        _Type __sum;
        const _Type __before = __prefix(__input, __sum, __operator, __total, __any, _site);
        const int __lane = static_cast<int>(LaneId());
        const _Type __left = ::cooperative_groups::__fetch(0xffffffffu, __sum, __lane == 0 ? 0 : __lane - 1,
                                                           _site.__line, _site.__file);
        _Type __value = __initial;
        if (__any) __value = __operator(__value, __before);
        if (__lane != 0) __value = __operator(__value, __left);
        __output = __value;
    }
    // ------------------------------------------------------------------- several items a thread
    template <int _Items, class _Operator>
    __EMULATOR_INLINE__ void InclusiveScan(_Type (&__input)[_Items], _Type (&__output)[_Items], _Operator __operator,
                                           __EMULATOR_SITE_AS__(_site)) {
        _Type __total;
        InclusiveScan(__input, __output, __operator, __total, _site);
    }
    template <int _Items, class _Operator>
    __EMULATOR_INLINE__ void InclusiveScan(_Type (&__input)[_Items], _Type (&__output)[_Items], _Operator __operator,
                                           _Type& __total, __EMULATOR_SITE_AS__(_site)) {
        _Type __sums[_Items];
        __sums[0] = __input[0];
        for (int __i = 1; __i < _Items; ++__i) __sums[__i] = __operator(__sums[__i - 1], __input[__i]);
        _Type __scanned;
        InclusiveScan(__sums[_Items - 1], __scanned, __operator, __total, _site);
        const _Type __before = __previous(__scanned, _site);
        for (int __i = 0; __i < _Items; ++__i) {
            __output[__i] = ::__emulator::__thread_rank() == 0 ? __sums[__i]
                                                               : static_cast<_Type>(__operator(__before, __sums[__i]));
        }
    }
    template <int _Items, class _Operator>
    __EMULATOR_INLINE__ void ExclusiveScan(_Type (&__input)[_Items], _Type (&__output)[_Items], _Type __initial,
                                           _Operator __operator, __EMULATOR_SITE_AS__(_site)) {
        _Type __total;
        ExclusiveScan(__input, __output, __initial, __operator, __total, _site);
    }
    template <int _Items, class _Operator>
    __EMULATOR_INLINE__ void ExclusiveScan(_Type (&__input)[_Items], _Type (&__output)[_Items], _Type __initial,
                                           _Operator __operator, _Type& __total, __EMULATOR_SITE_AS__(_site)) {
        _Type __sum = __input[0];
        for (int __i = 1; __i < _Items; ++__i) __sum = __operator(__sum, __input[__i]);
        _Type __value;
        ExclusiveScan(__sum, __value, __initial, __operator, __total, _site);
        for (int __i = 0; __i < _Items; ++__i) {
            const _Type __next = __operator(__value, __input[__i]);
            __output[__i] = __value;
            __value = __next;
        }
    }
    // ------------------------------------------------------------------------------------ sums
    template <class _Values>
    __EMULATOR_INLINE__ void InclusiveSum(_Values& __input, _Values& __output, __EMULATOR_SITE_AS__(_site)) {
        InclusiveScan(__input, __output, ::cub::Sum(), _site);
    }
    template <class _Values>
    __EMULATOR_INLINE__ void InclusiveSum(_Values& __input, _Values& __output, _Type& __total,
                                          __EMULATOR_SITE_AS__(_site)) {
        InclusiveScan(__input, __output, ::cub::Sum(), __total, _site);
    }
    template <class _Values>
    __EMULATOR_INLINE__ void ExclusiveSum(_Values& __input, _Values& __output, __EMULATOR_SITE_AS__(_site)) {
        ExclusiveScan(__input, __output, _Type{}, ::cub::Sum(), _site);
    }
    template <class _Values>
    __EMULATOR_INLINE__ void ExclusiveSum(_Values& __input, _Values& __output, _Type& __total,
                                          __EMULATOR_SITE_AS__(_site)) {
        ExclusiveScan(__input, __output, _Type{}, ::cub::Sum(), __total, _site);
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

private:
    // Scans the warp into `__output` and returns what all warps before it add up to; `__any` is false
    // for the first warp, which has none before it.
    template <class _Operator>
    _Type __prefix(_Type __input, _Type& __output, _Operator __operator, _Type& __total, bool& __any,
                   ::__emulator::__site _site) {
        typename WarpScan<_Type>::TempStorage __none;
        WarpScan<_Type>(__none).InclusiveScan(__input, __output, __operator, _site);
        const int __rank = static_cast<int>(::__emulator::__thread_rank());
        const int __warp = __rank / 32;
        if ((__rank & 31) == 31 || __rank == __threads - 1) __temporary_[__warp] = __output;
        ::__emulator::__meet(0, _site);
        _Type __sum = __temporary_[0];
        _Type __before = __sum;
        __any = __warp > 0;
        for (int __i = 1; __i < __warps; ++__i) {
            if (__i == __warp) __before = __sum;
            __sum = __operator(__sum, static_cast<_Type>(__temporary_[__i]));
        }
        __total = __sum;
        return __before;
    }
    // The value of the thread before this one, across warps.
    _Type __previous(_Type __value, ::__emulator::__site _site) {
        const int __rank = static_cast<int>(::__emulator::__thread_rank());
        const int __lane = __rank & 31;
        const _Type __left = ::cooperative_groups::__fetch(0xffffffffu, __value, __lane == 0 ? 0 : __lane - 1,
                                                           _site.__line, _site.__file);
        ::__emulator::__meet(1, _site);
        if (__lane == 31 || __rank == __threads - 1) __temporary_[__rank / 32] = __value;
        ::__emulator::__meet(2, _site);
        return __lane == 0 && __rank > 0 ? static_cast<_Type>(__temporary_[__rank / 32 - 1]) : __left;
    }
    static TempStorage& __own() {
        __shared__ TempStorage __private_storage;
        return __private_storage;
    }
    TempStorage& __temporary_;
};

}  // namespace cub
