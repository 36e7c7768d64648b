// The function objects of cooperative_groups.
#pragma once

namespace cooperative_groups {

template <class _Type>
struct plus {
    constexpr _Type operator()(const _Type& __x, const _Type& __y) const { return __x + __y; }
};
template <class _Type>
struct less {  // the lesser of the two
    constexpr _Type operator()(const _Type& __x, const _Type& __y) const { return __y < __x ? __y : __x; }
};
template <class _Type>
struct greater {
    constexpr _Type operator()(const _Type& __x, const _Type& __y) const { return __x < __y ? __y : __x; }
};
template <class _Type>
struct bit_and {
    constexpr _Type operator()(const _Type& __x, const _Type& __y) const { return __x & __y; }
};
template <class _Type>
struct bit_or {
    constexpr _Type operator()(const _Type& __x, const _Type& __y) const { return __x | __y; }
};
template <class _Type>
struct bit_xor {
    constexpr _Type operator()(const _Type& __x, const _Type& __y) const { return __x ^ __y; }
};

}  // namespace cooperative_groups
