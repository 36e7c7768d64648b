// Cooperative groups: the thread block, tiles of a warp, coalesced groups, the grid.
#pragma once

#include "cuda_runtime.h"
#include "emulator/group_base.h"
#include "emulator/group_warp.h"

namespace cooperative_groups {

// ------------------------------------------------------------------------------ thread block
class thread_block : public thread_group {
public:
    __EMULATOR_INLINE__ thread_block() : thread_group(__kind::__whole_block, 0) {}
    static dim3 thread_index() { return dim3(threadIdx); }
    static dim3 group_index() { return dim3(blockIdx); }
    static dim3 dim_threads() { return blockDim; }
    static dim3 group_dim() { return blockDim; }
    static unsigned int thread_rank() { return ::__emulator::__thread_rank(); }
    static unsigned int num_threads() { return ::__emulator::__block_size(); }
    static unsigned int size() { return num_threads(); }
    struct arrival_token {};
    arrival_token barrier_arrive() const { return {}; }
    void barrier_wait(arrival_token, __EMULATOR_SITE__) const { sync(__line, __file); }
};
__EMULATOR_INLINE__ thread_block this_thread_block() { return thread_block(); }

// -------------------------------------------------------------------------------------- grid
class grid_group {
public:
    static bool is_valid() { return true; }
    // Blocks run one after another: only a grid of one block can meet.
    void sync(__EMULATOR_SITE__) const {
        if (gridDim.x * gridDim.y * gridDim.z != 1) __emulator_grid_sync(__line, __file);
        ::cooperative_groups::__block_sync(__line, __file);
    }
    static unsigned long long num_threads() { return num_blocks() * ::__emulator::__block_size(); }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() {
        return block_rank() * ::__emulator::__block_size() + ::__emulator::__thread_rank();
    }
    static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long block_rank() {
        return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 block_index() { return dim3(blockIdx); }
    static dim3 group_dim() { return gridDim; }
};
__EMULATOR_INLINE__ grid_group this_grid() { return grid_group(); }

// ------------------------------------------------------------------------------ partitioning
template <unsigned int _Size, class _Parent>
__EMULATOR_INLINE__ thread_block_tile<_Size, _Parent> tiled_partition(const _Parent& __parent) {
    static_assert(_Size <= 32, "tiles of more than 32 threads are not supported: use the thread block");
    return thread_block_tile<_Size, _Parent>(__parent);
}
// Tiles of a coalesced group: by rank, not by lane.
template <unsigned int _Size>
__EMULATOR_INLINE__ coalesced_group tiled_partition(const coalesced_group& __parent) {
    return __parent.__tile(_Size);
}
__EMULATOR_INLINE__ coalesced_group tiled_partition(const coalesced_group& __parent, unsigned int __size) {
    return __parent.__tile(__size);
}
__EMULATOR_INLINE__ thread_group tiled_partition(const thread_group& __parent, unsigned int __size) {
    return __parent.__tile(__size);
}
__EMULATOR_INLINE__ coalesced_group coalesced_threads(__EMULATOR_SITE__) {
    return coalesced_group(__emulator_active_mask(__line, __file), 0, 1);
}
template <class _Group, class _Label>
__EMULATOR_INLINE__ coalesced_group labeled_partition(const _Group& __group, _Label __label, __EMULATOR_SITE__) {
    return ::cooperative_groups::__partition_by_label(__group.__lanes(), __label, __line, __file);
}
template <class _Group>
__EMULATOR_INLINE__ coalesced_group binary_partition(const _Group& __group, bool __predicate, __EMULATOR_SITE__) {
    return ::cooperative_groups::__partition_by_label(__group.__lanes(), static_cast<int>(__predicate), __line, __file);
}

// -------------------------------------------------------------------------- free functions
template <class _Group>
__EMULATOR_INLINE__ void sync(const _Group& __group, __EMULATOR_SITE__) {
    __group.sync(__line, __file);
}
template <class _Group>
__EMULATOR_INLINE__ auto thread_rank(const _Group& __group) {
    return __group.thread_rank();
}
template <class _Group>
__EMULATOR_INLINE__ auto group_size(const _Group& __group) {
    return __group.size();
}
template <class _Group, class _Function>
__EMULATOR_INLINE__ void invoke_one(const _Group& __group, _Function __function) {
    if (__group.thread_rank() == 0) __function();
}
template <class _Group, class _Function>
__EMULATOR_INLINE__ auto invoke_one_broadcast(const _Group& __group, _Function __function, __EMULATOR_SITE__) {
    decltype(__function()) __value{};
    if (__group.thread_rank() == 0) __value = __function();
    return __group.shfl(__value, 0, __line, __file);
}

}  // namespace cooperative_groups
