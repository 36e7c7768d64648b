// Steps: what a program may do before it is taken to run for ever. One per iteration of a loop that
// the student wrote, so the count is the same with every compiler, on every machine.
#pragma once

#include "keywords.h"

extern "C" {
extern __EMULATOR_HIDDEN__ long __emulator_steps;  // left until the runtime has a look
void __emulator_out_of_steps(int __line, const char* __file);
}

namespace __emulator {
// Takes a step; true at the end of the slice. In assembly, because it is no access of the student's: the
// compiler would tell the runtime of it (runtime/hooks.cpp).
__EMULATOR_INLINE__ bool __take_step() {
#ifdef __x86_64__
    bool __spent;
    __asm__ volatile("subq $1, %0" : "+m"(__emulator_steps), "=@ccs"(__spent) : : "cc");
    return __spent;
#else
    return --__emulator_steps < 0;
#endif
}
__EMULATOR_INLINE__ constexpr bool __step(__EMULATOR_SITE__) {
    if (!__builtin_is_constant_evaluated()) {
        if (__builtin_expect(__take_step(), 0)) __emulator_out_of_steps(__line, __file);
    }
    return false;
}
}  // namespace __emulator

// Stands between the head of a loop and its body.
#define __EMULATOR_STEP__ if (::__emulator::__step()) {} else
