// cooperative_groups::reduce and its operators.
#pragma once

#include "../cooperative_groups.h"
#include "../emulator/group_operators.h"

namespace cooperative_groups {

template <class _Group, class _Type, class _Operator>
__EMULATOR_INLINE__ _Type reduce(const _Group& __group, const _Type& __value, _Operator&& __operator,
                                 __EMULATOR_SITE__) {
    _Type __sum = __value;
    const int __rank = __group.__my_rank();
    const int __size = __group.__my_size();
    int __distance = 1;
    while (__distance < __size) __distance *= 2;
    for (__distance /= 2; __distance > 0; __distance /= 2) {
        const _Type __other = __group.shfl_down(__sum, __distance, __line, __file);
        if (__rank + __distance < __size && __rank < __distance) __sum = __operator(__sum, __other);
    }
    return __group.shfl(__sum, 0, __line, __file);
}

}  // namespace cooperative_groups
