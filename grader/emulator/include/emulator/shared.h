// Shared memory. A variable is a static object; its bytes are made NaN when a block first meets it.
#pragma once

#include "keywords.h"

extern "C" {
extern __EMULATOR_HIDDEN__ unsigned __emulator_block_serial;  // grows with every block that runs
char* __emulator_dynamic_shared(void);
// `__room`: bytes on either side that belong to nobody.
void __emulator_enter_shared(void* __address, size_t __size, size_t __room, const char* __name);
void __emulator_register_shared(void* __address, size_t __size, size_t __room, const char* __name);
void __emulator_register_variable(const volatile void* __address, size_t __size, const char* __name);
void __emulator_hides_variables(void);
}

namespace __emulator {

struct DynamicShared {
    template <class _Type>
    operator _Type&() const {
        return *reinterpret_cast<_Type*>(__emulator_dynamic_shared());
    }
};

template <class _Type>
__EMULATOR_INLINE__ void __enter(_Type& __variable, unsigned& __serial, size_t __room, const char* __name) {
    if (__serial == __emulator_block_serial) return;
    __serial = __emulator_block_serial;
    __emulator_enter_shared(const_cast<void*>(reinterpret_cast<const volatile void*>(&__variable)), sizeof(__variable),
                            __room, __name);
}

struct SharedGlobal {
    template <class _Type>
    SharedGlobal(_Type& __variable, size_t __room, const char* __name) {
        __emulator_register_shared(const_cast<void*>(reinterpret_cast<const volatile void*>(&__variable)),
                                   sizeof(__variable), __room, __name);
    }
};
struct Variable {
    template <class _Type>
    Variable(_Type& __variable, const char* __name) {
        __emulator_register_variable(reinterpret_cast<const volatile void*>(&__variable), sizeof(__variable), __name);
    }
};
struct HiddenVariables {
    HiddenVariables() { __emulator_hides_variables(); }
};
}  // namespace __emulator

// At the end of a file whose macros may declare device variables.
#define __EMULATOR_HIDES_VARIABLES__ \
    static ::__emulator::HiddenVariables __EMULATOR_UNIQUE__(__hidden_variables_, __COUNTER__);
#define __EMULATOR_DYNAMIC_SHARED__ static
#define __EMULATOR_GLUE__(_a, _b) _a##_b
#define __EMULATOR_UNIQUE__(_a, _b) __EMULATOR_GLUE__(_a, _b)
#define __EMULATOR_ROOM_BYTES__ 256
// The variables of one declaration, with room before and behind each that belongs to nobody. What stands
// between the first two is the declaration, with a further variable behind every one.
#define __EMULATOR_ROOM__(_first) \
    struct __room_of_##_first { \
        char __room_before[__EMULATOR_ROOM_BYTES__]; \
        __attribute__((aligned(__EMULATOR_ROOM_BYTES__)))
#define __EMULATOR_ROOM_ENDS__(_first) \
    } \
    ; \
    static __room_of_##_first __room_with_##_first
#define __EMULATOR_IN_ROOM__(_first, _name) static auto& _name = __room_with_##_first._name
#define __EMULATOR_SHARED__(_room, _name) \
    static unsigned __serial_of_##_name; \
    ::__emulator::__enter(_name, __serial_of_##_name, _room, #_name)
#define __EMULATOR_SHARED_GLOBAL__(_room, _name) \
    static ::__emulator::SharedGlobal __EMULATOR_UNIQUE__(__shared_of_, _name)(_name, _room, #_name)
#define __EMULATOR_VARIABLE__(_name, _qualified) \
    static ::__emulator::Variable __EMULATOR_UNIQUE__(__variable_of_, _name)(_qualified, #_name)
