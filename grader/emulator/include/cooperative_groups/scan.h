// cooperative_groups::inclusive_scan and exclusive_scan.
#pragma once

#include "../cooperative_groups.h"
#include "../emulator/group_operators.h"

namespace cooperative_groups {

template <class _Group, class _Type, class _Operator>
__EMULATOR_INLINE__ _Type inclusive_scan(const _Group& __group, const _Type& __value, _Operator&& __operator,
                                         __EMULATOR_SITE__) {
    _Type __sum = __value;
    const int __rank = __group.__my_rank();
    for (int __distance = 1; __distance < __group.__my_size(); __distance *= 2) {
        const _Type __other = __group.shfl_up(__sum, __distance, __line, __file);
        if (__rank >= __distance) __sum = __operator(__other, __sum);
    }
    return __sum;
}
template <class _Group, class _Type>
__EMULATOR_INLINE__ _Type inclusive_scan(const _Group& __group, const _Type& __value) {
    return ::cooperative_groups::inclusive_scan(__group, __value, plus<_Type>());
}
template <class _Group, class _Type, class _Operator>
__EMULATOR_INLINE__ _Type exclusive_scan(const _Group& __group, const _Type& __value, _Operator&& __operator,
                                         __EMULATOR_SITE__) {
    const _Type __sum = ::cooperative_groups::inclusive_scan(__group, __value, __operator, __line, __file);
    const _Type __before = __group.shfl_up(__sum, 1, __line, __file);
    return __group.__my_rank() == 0 ? _Type{} : __before;
}
template <class _Group, class _Type>
__EMULATOR_INLINE__ _Type exclusive_scan(const _Group& __group, const _Type& __value) {
    return ::cooperative_groups::exclusive_scan(__group, __value, plus<_Type>());
}

}  // namespace cooperative_groups
