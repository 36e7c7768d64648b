// The functions that compilers call for every access to memory, with the names that -fsanitize=thread
// gives them: student code is compiled with it, and linked with these instead of a sanitizer.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "watch.h"

using namespace emulator;

namespace {

inline __attribute__((always_inline)) bool watched() {
    return __builtin_expect(watchers != 0, 0) && current != nullptr;
}

inline __attribute__((always_inline)) void touch(const volatile void* address, size_t size, bool write, bool atomic,
                                                 const void* instruction) {
    if (!watched()) return;
    watch_access({static_cast<char*>(const_cast<void*>(address)), static_cast<uint32_t>(size), write, atomic,
                  instruction});
}

}  // namespace

#define HERE __builtin_return_address(0)

extern "C" {

#define ACCESS(name, size) \
    void __tsan_##name##read##size(void* address) { touch(address, size, false, false, HERE); } \
    void __tsan_##name##write##size(void* address) { touch(address, size, true, false, HERE); } \
    void __tsan_##name##read_write##size(void* address) { \
        touch(address, size, false, false, HERE); \
        touch(address, size, true, false, HERE); \
    }
#define ACCESSES(name) ACCESS(name, 1) ACCESS(name, 2) ACCESS(name, 4) ACCESS(name, 8) ACCESS(name, 16)
ACCESSES()
ACCESSES(unaligned_)
ACCESSES(volatile_)
ACCESSES(unaligned_volatile_)

void __tsan_read_range(void* address, size_t size) { touch(address, size, false, false, HERE); }
void __tsan_write_range(void* address, size_t size) { touch(address, size, true, false, HERE); }

// Copies of whole objects: clang++ calls the first three by itself, cuda_runtime.h sends memcpy and its kin
// to the others.
void* __tsan_memcpy(void* to, const void* from, size_t size) {
    touch(from, size, false, false, HERE);
    touch(to, size, true, false, HERE);
    return std::memcpy(to, from, size);
}
void* __tsan_memmove(void* to, const void* from, size_t size) {
    touch(from, size, false, false, HERE);
    touch(to, size, true, false, HERE);
    return std::memmove(to, from, size);
}
void* __tsan_memset(void* to, int value, size_t size) {
    touch(to, size, true, false, HERE);
    return std::memset(to, value, size);
}
void* __emulator_copy(void* to, const void* from, size_t size) {
    touch(from, size, false, false, HERE);
    touch(to, size, true, false, HERE);
    return std::memcpy(to, from, size);
}
void* __emulator_move(void* to, const void* from, size_t size) {
    touch(from, size, false, false, HERE);
    touch(to, size, true, false, HERE);
    return std::memmove(to, from, size);
}
void* __emulator_fill(void* to, int value, size_t size) {
    touch(to, size, true, false, HERE);
    return std::memset(to, value, size);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

// What the C++ library's atomics are made of: host code has them in shared_ptr and in static variables.
#define UPDATE(bits, type, name) \
    type __tsan_atomic##bits##_##name(volatile type* address, type value, int) { \
        touch(address, sizeof(type), true, true, HERE); \
        return __atomic_##name(address, value, __ATOMIC_SEQ_CST); \
    }
#define COMPARE(bits, type, name, weak) \
    int __tsan_atomic##bits##_compare_exchange_##name(volatile type* address, type* expected, type value, int, int) { \
        touch(address, sizeof(type), true, true, HERE); \
        return __atomic_compare_exchange_n(address, expected, value, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
#define ATOMICS(bits, type) \
    type __tsan_atomic##bits##_load(const volatile type* address, int) { \
        touch(address, sizeof(type), false, true, HERE); \
        return __atomic_load_n(address, __ATOMIC_SEQ_CST); \
    } \
    void __tsan_atomic##bits##_store(volatile type* address, type value, int) { \
        touch(address, sizeof(type), true, true, HERE); \
        __atomic_store_n(address, value, __ATOMIC_SEQ_CST); \
    } \
    type __tsan_atomic##bits##_exchange(volatile type* address, type value, int) { \
        touch(address, sizeof(type), true, true, HERE); \
        return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST); \
    } \
    UPDATE(bits, type, fetch_add) \
    UPDATE(bits, type, fetch_sub) \
    UPDATE(bits, type, fetch_and) \
    UPDATE(bits, type, fetch_or) \
    UPDATE(bits, type, fetch_xor) \
    UPDATE(bits, type, fetch_nand) \
    COMPARE(bits, type, strong, false) \
    COMPARE(bits, type, weak, true) \
    type __tsan_atomic##bits##_compare_exchange_val(volatile type* address, type expected, type value, int, int) { \
        touch(address, sizeof(type), true, true, HERE); \
        __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
        return expected; \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
}
