// The type that every group converts to, and what the groups share.
#pragma once

#include "barrier.h"
#include "builtins.h"
#include "warp.h"

extern "C" void __emulator_grid_sync(int __line, const char* __file);

namespace cooperative_groups {

// A barrier of a group is told from others by its place; negative, unlike those of __syncthreads().
static __EMULATOR_INLINE__ void __block_sync(int __line, const char* __file) {
    __emulator_barrier(__EMULATOR_BARRIER, 0, -__line - 1, __line, __file);
}

static __EMULATOR_INLINE__ unsigned __lane() { return ::__emulator::__thread_rank() & 31; }

// How many of the mask's lanes are below this one.
static __EMULATOR_INLINE__ unsigned __rank_in(unsigned __mask) {
    return static_cast<unsigned>(__builtin_popcount(__mask & ((1u << __lane()) - 1)));
}

// The lane of the mask's `__rank`-th set bit, or -1.
static inline int __nth_lane(unsigned __mask, unsigned __rank) {
    for (; __mask != 0; __mask &= __mask - 1) {
        if (__rank-- == 0) return __builtin_ctz(__mask);
    }
    return -1;
}

// A value of any size, from a lane of the warp.
template <class _Type>
__EMULATOR_INLINE__ _Type __fetch(unsigned __mask, const _Type& __value, int __source_lane, int __line,
                                  const char* __file) {
    static_assert(std::is_trivially_copyable<_Type>::value, "only trivially copyable values can be shuffled");
    constexpr int __code = __EMULATOR_SHFL | (32 << 8);
    if constexpr (sizeof(_Type) <= 8) {
        return ::__emulator::__from_bits<_Type>(__emulator_warp(__code, __mask, ::__emulator::__to_bits(__value),
                                                                __source_lane, __line, __file));
    } else {
        unsigned long long __words[(sizeof(_Type) + 7) / 8] = {};
        __builtin_memcpy(__words, &__value, sizeof(_Type));
        for (unsigned long long& __word : __words) {
            __word = __emulator_warp(__code, __mask, __word, __source_lane, __line, __file);
        }
        _Type __result;
        __builtin_memcpy(static_cast<void*>(&__result), __words, sizeof(_Type));
        return __result;
    }
}

class thread_group {
public:
    void sync(__EMULATOR_SITE__) const {
        if (__kind_ == __kind::__whole_block) {
            __block_sync(__line, __file);
        } else {
            __syncwarp(__mask_, __line, __file);
        }
    }
    unsigned long long size() const {
        return __kind_ == __kind::__whole_block ? ::__emulator::__block_size()
                                                : static_cast<unsigned>(__builtin_popcount(__mask_));
    }
    unsigned long long num_threads() const { return size(); }
    unsigned long long thread_rank() const {
        return __kind_ == __kind::__whole_block ? ::__emulator::__thread_rank() : __rank_in(__mask_);
    }
    bool is_valid() const { return true; }

    // A part of `__size` threads with this one in it; only parts of a warp can meet.
    thread_group __tile(unsigned __size) const {
        if (__kind_ == __kind::__whole_block) {
            if (__size > 32) __emulator_trap("tiled_partition into tiles of more than 32 threads", 0, nullptr);
            const unsigned __first = __lane() & ~(__size - 1);
            return thread_group(__kind::__part_of_warp, __ones(__size) << __first);
        }
        return thread_group(__kind::__part_of_warp, __part_of(__mask_, __size));
    }

protected:
    enum class __kind { __whole_block, __part_of_warp };
    __EMULATOR_INLINE__ thread_group(__kind __which, unsigned __lanes) : __kind_(__which), __mask_(__lanes) {}

    static __EMULATOR_INLINE__ unsigned __ones(unsigned __count) {
        return __count >= 32 ? 0xffffffffu : (1u << __count) - 1;
    }
    // The lanes of the mask whose rank lies in the same run of `__size` as this lane's.
    static unsigned __part_of(unsigned __mask, unsigned __size) {
        const unsigned __first = __rank_in(__mask) / __size * __size;
        unsigned __part = 0;
        unsigned __rank = 0;
        for (unsigned __rest = __mask; __rest != 0; __rest &= __rest - 1, ++__rank) {
            if (__rank >= __first && __rank < __first + __size) __part |= __rest & -__rest;
        }
        return __part;
    }

    __kind __kind_;
    unsigned __mask_;
};

}  // namespace cooperative_groups
