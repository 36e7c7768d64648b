// Switching between fibers: a few instructions, everything else is told to the compiler as clobbered.
//
// A suspended context is a stack pointer; on top of that stack lie the address to continue at and the
// frame pointer. It continues by an indirect jump, never by `ret`: a return address that was pushed on
// another stack is always mispredicted. Everything is inlined into the callers for the same reason.
#pragma once

#include <cstdint>

namespace emulator {

#if defined(__x86_64__)

// Suspends the running fiber, storing its context in *from, and continues the context `to`.
inline __attribute__((always_inline)) void switch_context(void** from, void* to) {
    asm volatile(
        "leaq -128(%%rsp), %%rsp\n\t"  // the red zone may be in use
        "pushq %%rbp\n\t"
        "leaq 1f(%%rip), %%rax\n\t"
        "pushq %%rax\n\t"
        "movq %%rsp, (%%rdi)\n\t"
        "movq %%rsi, %%rsp\n\t"
        "popq %%rcx\n\t"
        "jmpq *%%rcx\n"
        "1:\n\t"
        "popq %%rbp\n\t"
        "leaq 128(%%rsp), %%rsp"
        : "+D"(from), "+S"(to)
        :
        : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
          "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
          "xmm15", "memory", "cc");
}

// Continues the context `to`; the running fiber is over.
[[noreturn]] inline __attribute__((always_inline)) void jump_context(void* to) {
    asm volatile(
        "movq %0, %%rsp\n\t"
        "popq %%rcx\n\t"
        "jmpq *%%rcx"
        :
        : "r"(to)
        : "memory");
    __builtin_unreachable();
}

// A context that enters `function` on an empty stack.
inline void* make_context(char* top, void (*function)()) {
    auto* stack = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
    stack[-1] = nullptr;  // where a return address would be
    stack[-2] = reinterpret_cast<void*>(function);
    return stack - 2;
}

#elif defined(__aarch64__)

// x18 belongs to the platform on macOS and is an ordinary register on Linux.
#if defined(__APPLE__)
#define EMULATOR_X18
#else
#define EMULATOR_X18 "x18",
#endif

inline __attribute__((always_inline)) void switch_context(void** from, void* to) {
    register void** save asm("x0") = from;
    register void* next asm("x1") = to;
    asm volatile(
        "sub sp, sp, #16\n\t"
        "adr x9, 1f\n\t"
        "stp x9, x29, [sp]\n\t"
        "mov x10, sp\n\t"
        "str x10, [x0]\n\t"
        "mov sp, x1\n\t"
        "ldp x9, x29, [sp]\n\t"
        "add sp, sp, #16\n\t"
        "br x9\n"
        "1:"
        : "+r"(save), "+r"(next)
        :
        : EMULATOR_X18 "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
          "x17", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "v0", "v1", "v2", "v3",
          "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19",
          "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");
}

[[noreturn]] inline __attribute__((always_inline)) void jump_context(void* to) {
    asm volatile(
        "mov sp, %0\n\t"
        "ldp x9, x29, [sp]\n\t"
        "add sp, sp, #16\n\t"
        "br x9"
        :
        : "r"(to)
        : "x9", "memory");
    __builtin_unreachable();
}

inline void* make_context(char* top, void (*function)()) {
    auto* stack = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(top) & ~uintptr_t{15});
    stack[-1] = nullptr;  // frame pointer
    stack[-2] = reinterpret_cast<void*>(function);
    return stack - 2;
}

#else
#error "The emulator switches fibers on x86-64 and aarch64 only."
#endif

}  // namespace emulator
