// Groups inside a warp: static tiles and coalesced groups.
#pragma once

#include "group_base.h"

namespace cooperative_groups {

// What tiles and coalesced groups have in common: shuffles, votes and matches in terms of ranks.
template <class _Self>
class __warp_group : public thread_group {
public:
    unsigned __lanes() const { return __mask_; }
    void sync(__EMULATOR_SITE__) const { __syncwarp(__mask_, __line, __file); }

    template <class _Type>
    __EMULATOR_INLINE__ _Type shfl(_Type __value, int __source, __EMULATOR_SITE__) const {
        return __fetch(__mask_, __value, __self().__lane_of(__source), __line, __file);
    }
    template <class _Type>
    __EMULATOR_INLINE__ _Type shfl_up(_Type __value, int __delta, __EMULATOR_SITE__) const {
        const int __rank = __self().__my_rank();
        return __fetch(__mask_, __value, __self().__lane_of(__rank >= __delta ? __rank - __delta : __rank), __line,
                       __file);
    }
    template <class _Type>
    __EMULATOR_INLINE__ _Type shfl_down(_Type __value, int __delta, __EMULATOR_SITE__) const {
        const int __rank = __self().__my_rank();
        const int __count = __self().__my_size();
        return __fetch(__mask_, __value, __self().__lane_of(__rank + __delta < __count ? __rank + __delta : __rank),
                       __line, __file);
    }
    __EMULATOR_INLINE__ int any(int __predicate, __EMULATOR_SITE__) const {
        return __any_sync(__mask_, __predicate, __line, __file);
    }
    __EMULATOR_INLINE__ int all(int __predicate, __EMULATOR_SITE__) const {
        return __all_sync(__mask_, __predicate, __line, __file);
    }
    __EMULATOR_INLINE__ unsigned int ballot(int __predicate, __EMULATOR_SITE__) const {
        return __self().__pack(__ballot_sync(__mask_, __predicate, __line, __file));
    }
    template <class _Type>
    __EMULATOR_INLINE__ unsigned int match_any(_Type __value, __EMULATOR_SITE__) const {
        return __self().__pack(__match_any_sync(__mask_, __value, __line, __file));
    }
    template <class _Type>
    __EMULATOR_INLINE__ unsigned int match_all(_Type __value, int& __predicate, __EMULATOR_SITE__) const {
        return __self().__pack(__match_all_sync(__mask_, __value, &__predicate, __line, __file));
    }

protected:
    __EMULATOR_INLINE__ explicit __warp_group(unsigned __mask) : thread_group(__kind::__part_of_warp, __mask) {}

private:
    __EMULATOR_INLINE__ const _Self& __self() const { return static_cast<const _Self&>(*this); }
};

template <unsigned int _Size, class _Parent = void>
class thread_block_tile : public __warp_group<thread_block_tile<_Size, _Parent>> {
    static_assert(_Size != 0 && (_Size & (_Size - 1)) == 0, "the size of a tile is a power of two");

public:
    template <class _Group>
    __EMULATOR_INLINE__ explicit thread_block_tile(const _Group& __parent)
        : __warp_group<thread_block_tile>(thread_group::__ones(_Size) << (__lane() & ~(_Size - 1))),
          __meta_rank_(static_cast<unsigned>(__parent.thread_rank()) / _Size),
          __meta_size_((static_cast<unsigned>(__parent.size()) + _Size - 1) / _Size) {}
    // A tile forgets its parent when it is passed on as thread_block_tile<N>.
    template <class _Other>
    __EMULATOR_INLINE__ thread_block_tile(const thread_block_tile<_Size, _Other>& __other)
        : __warp_group<thread_block_tile>(__other.__lanes()),
          __meta_rank_(__other.meta_group_rank()),
          __meta_size_(__other.meta_group_size()) {}

    static constexpr unsigned int size() { return _Size; }
    static constexpr unsigned int num_threads() { return _Size; }
    static unsigned int thread_rank() { return __lane() & (_Size - 1); }
    unsigned int meta_group_rank() const { return __meta_rank_; }
    unsigned int meta_group_size() const { return __meta_size_; }

    template <class _Type>
    __EMULATOR_INLINE__ _Type shfl_xor(_Type __value, int __lanes_xor, __EMULATOR_SITE__) const {
        const int __rank = __my_rank() ^ __lanes_xor;
        return __fetch(this->__mask_, __value, __lane_of(__rank < static_cast<int>(_Size) ? __rank : __my_rank()),
                       __line, __file);
    }

    __EMULATOR_INLINE__ int __my_rank() const { return static_cast<int>(thread_rank()); }
    static constexpr int __my_size() { return _Size; }
    __EMULATOR_INLINE__ int __lane_of(int __rank) const {
        return static_cast<int>((__lane() & ~(_Size - 1)) + (static_cast<unsigned>(__rank) & (_Size - 1)));
    }
    __EMULATOR_INLINE__ unsigned __pack(unsigned __bits) const {
        return __bits >> (__lane() & ~(_Size - 1)) & thread_group::__ones(_Size);
    }

private:
    unsigned __meta_rank_;
    unsigned __meta_size_;
};

class coalesced_group : public __warp_group<coalesced_group> {
public:
    __EMULATOR_INLINE__ coalesced_group(unsigned __mask, unsigned __meta_rank, unsigned __meta_size)
        : __warp_group<coalesced_group>(__mask), __meta_rank_(__meta_rank), __meta_size_(__meta_size) {}

    unsigned int size() const { return static_cast<unsigned>(__builtin_popcount(__mask_)); }
    unsigned int num_threads() const { return size(); }
    unsigned int thread_rank() const { return __rank_in(__mask_); }
    unsigned int meta_group_rank() const { return __meta_rank_; }
    unsigned int meta_group_size() const { return __meta_size_; }

    int __my_rank() const { return static_cast<int>(thread_rank()); }
    int __my_size() const { return static_cast<int>(size()); }
    int __lane_of(int __rank) const {
        return __mask_ == 0xffffffffu ? __rank & 31 : __nth_lane(__mask_, static_cast<unsigned>(__rank) % size());
    }
    // The bits of the group's lanes side by side, in the order of the ranks.
    unsigned __pack(unsigned __bits) const {
        unsigned __packed = 0;
        unsigned __rank = 0;
        for (unsigned __rest = __mask_; __rest != 0; __rest &= __rest - 1, ++__rank) {
            if ((__bits & __rest & -__rest) != 0) __packed |= 1u << __rank;
        }
        return __packed;
    }
    coalesced_group __tile(unsigned __size) const {
        return coalesced_group(__part_of(__mask_, __size), thread_rank() / __size, (size() + __size - 1) / __size);
    }

private:
    unsigned __meta_rank_;
    unsigned __meta_size_;
};

// Lanes with equal labels.
template <class _Label>
inline coalesced_group __partition_by_label(unsigned __mask, _Label __label, int __line, const char* __file) {
    const unsigned __same = __match_any_sync(__mask, __label, __line, __file);
    // Groups are numbered by their lowest lanes.
    const bool __first = (__same & ((1u << __lane()) - 1)) == 0;
    const unsigned __leaders = __ballot_sync(__mask, __first, __line, __file);
    const unsigned __below = (1u << __builtin_ctz(__same)) - 1;
    return coalesced_group(__same, static_cast<unsigned>(__builtin_popcount(__leaders & __below)),
                           static_cast<unsigned>(__builtin_popcount(__leaders)));
}

}  // namespace cooperative_groups
