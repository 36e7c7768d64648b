// Atomic operations. Device code runs on one OS thread and switches threads at barriers, warp
// operations and loop heads only, so reading and writing in turn is atomic. The accesses are
// volatile: a loop that waits for one must look again.
#pragma once

#include "keywords.h"
#include "vector_types.h"

extern "C" void __emulator_atomic(const volatile void* __address, bool __store);

// Blocks that are not run because the running one stands for them, if the address is global memory.
extern "C" unsigned long long __emulator_others(const volatile void* __address);

namespace __emulator {
// Counters count for blocks that are not run, too, as if those had come just before: a last block sees
// that it is the last one, and a queue of work runs out. Nobody is told of these accesses.
template <class _Type, class _Operation>
__attribute__((noinline, no_sanitize("thread"))) void __count_others(_Type* __address, _Operation __operation) {
    for (unsigned long long __left = __emulator_others(__address); __left != 0; --__left) {
        *__address = __operation(*__address);
    }
}

// `__store`: the new value does not depend on the old one.
template <class _Type, class _Operation>
__EMULATOR_INLINE__ _Type __atomic(_Type* __address, _Operation __operation, bool __store = false) {
    __emulator_atomic(__address, __store);
    volatile _Type* __cell = __address;
    const _Type __old = *__cell;
    *__cell = __operation(__old);
    // What is read after it is read again, as on a device, and not taken from what was stored here.
    __asm__ __volatile__("" ::: "memory");
    return __old;
}
}  // namespace __emulator

// Overloads, not templates: atomicMax(float*, float) and the like are left for students to define.
#define __EMULATOR_ATOMIC__(_name, _type, _store, _expression) \
    static __EMULATOR_INLINE__ _type _name(_type* __address, _type __value) { \
        return ::__emulator::__atomic( \
            __address, [=]([[maybe_unused]] _type __old) { return static_cast<_type>(_expression); }, _store); \
    } \
    static __EMULATOR_INLINE__ _type _name##_block(_type* __address, _type __value) { \
        return _name(__address, __value); \
    } \
    static __EMULATOR_INLINE__ _type _name##_system(_type* __address, _type __value) { \
        return _name(__address, __value); \
    }
// The same for those that count.
#define __EMULATOR_COUNTER__(_name, _type, _expression) \
    static __EMULATOR_INLINE__ _type _name(_type* __address, _type __value) { \
        const auto __next = [=](_type __old) { return static_cast<_type>(_expression); }; \
        ::__emulator::__count_others(__address, __next); \
        return ::__emulator::__atomic(__address, __next); \
    } \
    static __EMULATOR_INLINE__ _type _name##_block(_type* __address, _type __value) { \
        return _name(__address, __value); \
    } \
    static __EMULATOR_INLINE__ _type _name##_system(_type* __address, _type __value) { \
        return _name(__address, __value); \
    }
#define __EMULATOR_ATOMIC_INTEGERS__(_name, _store, _expression) \
    __EMULATOR_ATOMIC__(_name, int, _store, _expression) \
    __EMULATOR_ATOMIC__(_name, unsigned int, _store, _expression) \
    __EMULATOR_ATOMIC__(_name, unsigned long long, _store, _expression)

// int overflows wrap on the device
__EMULATOR_COUNTER__(atomicAdd, int, static_cast<unsigned>(__old) + static_cast<unsigned>(__value))
__EMULATOR_COUNTER__(atomicAdd, unsigned int, __old + __value)
__EMULATOR_COUNTER__(atomicAdd, unsigned long long, __old + __value)
__EMULATOR_ATOMIC__(atomicAdd, float, false, __old + __value)
__EMULATOR_ATOMIC__(atomicAdd, double, false, __old + __value)
__EMULATOR_COUNTER__(atomicSub, int, static_cast<unsigned>(__old) - static_cast<unsigned>(__value))
__EMULATOR_COUNTER__(atomicSub, unsigned int, __old - __value)
__EMULATOR_ATOMIC_INTEGERS__(atomicMin, false, __value < __old ? __value : __old)
__EMULATOR_ATOMIC__(atomicMin, long long, false, __value < __old ? __value : __old)
__EMULATOR_ATOMIC_INTEGERS__(atomicMax, false, __old < __value ? __value : __old)
__EMULATOR_ATOMIC__(atomicMax, long long, false, __old < __value ? __value : __old)
__EMULATOR_ATOMIC_INTEGERS__(atomicAnd, false, __old & __value)
__EMULATOR_ATOMIC_INTEGERS__(atomicOr, false, __old | __value)
__EMULATOR_ATOMIC_INTEGERS__(atomicXor, false, __old ^ __value)
__EMULATOR_ATOMIC_INTEGERS__(atomicExch, true, __value)
__EMULATOR_ATOMIC__(atomicExch, float, true, __value)
__EMULATOR_COUNTER__(atomicInc, unsigned int, __old >= __value ? 0u : __old + 1)
__EMULATOR_COUNTER__(atomicDec, unsigned int, __old == 0 || __old > __value ? __value : __old - 1)
#undef __EMULATOR_ATOMIC_INTEGERS__
#undef __EMULATOR_COUNTER__
#undef __EMULATOR_ATOMIC__

#define __EMULATOR_CAS__(_type) \
    static __EMULATOR_INLINE__ _type atomicCAS(_type* __address, _type __compare, _type __value) { \
        return ::__emulator::__atomic(__address, \
                                      [=](_type __old) { return __old == __compare ? __value : __old; }); \
    } \
    static __EMULATOR_INLINE__ _type atomicCAS_block(_type* __address, _type __compare, _type __value) { \
        return atomicCAS(__address, __compare, __value); \
    } \
    static __EMULATOR_INLINE__ _type atomicCAS_system(_type* __address, _type __compare, _type __value) { \
        return atomicCAS(__address, __compare, __value); \
    }
__EMULATOR_CAS__(int)
__EMULATOR_CAS__(unsigned int)
__EMULATOR_CAS__(unsigned long long)
__EMULATOR_CAS__(unsigned short)
#undef __EMULATOR_CAS__

#define __EMULATOR_NO_VECTOR_ATOMIC__ \
    __attribute__((unavailable("atomicAdd on float2/float4 needs a GPU of compute capability 9.0: add one component at a time")))
float2 atomicAdd(float2* __address, float2 __value) __EMULATOR_NO_VECTOR_ATOMIC__;
float4 atomicAdd(float4* __address, float4 __value) __EMULATOR_NO_VECTOR_ATOMIC__;
#undef __EMULATOR_NO_VECTOR_ATOMIC__
