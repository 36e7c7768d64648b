// Loads and stores with cache hints; the hints mean nothing here.
#pragma once

#include "keywords.h"

namespace __emulator {
template <class _Type>
struct __same {
    using __type = _Type;
};
}  // namespace __emulator

#define __EMULATOR_LOAD__(_name) \
    template <class _Type> \
    static __EMULATOR_INLINE__ _Type _name(const _Type* __address) { \
        return *__address; \
    }
#define __EMULATOR_STORE__(_name) \
    template <class _Type> \
    static __EMULATOR_INLINE__ void _name(_Type* __address, typename ::__emulator::__same<_Type>::__type __value) { \
        *__address = __value; \
    }
__EMULATOR_LOAD__(__ldg)
__EMULATOR_LOAD__(__ldca)
__EMULATOR_LOAD__(__ldcg)
__EMULATOR_LOAD__(__ldcs)
__EMULATOR_LOAD__(__ldlu)
__EMULATOR_LOAD__(__ldcv)
__EMULATOR_STORE__(__stwb)
__EMULATOR_STORE__(__stcg)
__EMULATOR_STORE__(__stcs)
__EMULATOR_STORE__(__stwt)
#undef __EMULATOR_LOAD__
#undef __EMULATOR_STORE__

#ifndef __clang__
#define __builtin_assume(...) ((void)0)
#endif
#define __nv_associate_access_property(_address, _property) (_address)

static __EMULATOR_INLINE__ size_t __cvta_generic_to_shared(const void* __address) {
    return reinterpret_cast<size_t>(__address);
}
