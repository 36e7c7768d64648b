// What CUB's collectives of a block are made of.
#pragma once

#include "group_base.h"

namespace __emulator {

// Uninitialised storage for values of any trivially copyable type, also those with constructors.
template <class _Type, int _Count>
struct __slots {
    alignas(_Type) unsigned char __bytes[_Count * sizeof(_Type)];

    _Type& operator[](int __i) { return reinterpret_cast<_Type*>(__bytes)[__i]; }
};

// A barrier of the block; `__part` tells those of one call apart.
static __EMULATOR_INLINE__ void __meet(int __part, __site __at) {
    __emulator_barrier(__EMULATOR_BARRIER, 0, -4 * __at.__line - __part - 1, __at.__line, __at.__file);
}

}  // namespace __emulator
