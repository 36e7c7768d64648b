// The functions that compilers call for every access to memory, with the names that -fsanitize=thread
// gives them: student code is compiled with it, and linked with these instead of a sanitizer.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stacks.h"
#include "watch.h"

namespace emulator {
namespace {

// Host code of another thread of the operating system may run beside a kernel: only what happens on the
// stack of the running fiber is device code.
inline __attribute__((always_inline)) bool watched() {
    if (__builtin_expect(watchers == 0, 1)) return false;
    const Thread* thread = current;
    const auto* here = static_cast<const char*>(__builtin_frame_address(0));
    return thread != nullptr && static_cast<size_t>(here - thread->stack) < Stacks::kSize;
}

inline __attribute__((always_inline)) void touch(const volatile void* address, size_t size, bool write, bool atomic,
                                                 const void* instruction, bool is_volatile = false,
                                                 bool aligned = true) {
    if (!watched()) return;
    watch_access({static_cast<char*>(const_cast<void*>(address)), static_cast<uint32_t>(size), write, atomic,
                  instruction, is_volatile, false, aligned});
}

// An atomic operation of device code is a read and a write, both volatile (atomics.h). It has announced itself
// and is told of as one access when it reads.
const volatile void* atomic_address = nullptr;
enum class Atomic { none, reads, writes } atomic_step = Atomic::none;
bool atomic_is_store = false;

inline __attribute__((always_inline)) void touch_volatile(const volatile void* address, size_t size, bool write,
                                                          const void* instruction, bool aligned) {
    if (!watched()) return;
    if (__builtin_expect(atomic_step != Atomic::none && address == atomic_address, 0)) {
        const bool first = atomic_step == Atomic::reads && !write;
        atomic_step = first ? Atomic::writes : Atomic::none;
        auto* cell = static_cast<char*>(const_cast<void*>(address));
        const auto bytes = static_cast<uint32_t>(size);
        if (first) watch_access({cell, bytes, true, true, instruction, false, atomic_is_store, aligned});
        return;
    }
    touch(address, size, write, false, instruction, true, aligned);
}

}  // namespace
}  // namespace emulator

using namespace emulator;

#define HERE __builtin_return_address(0)

extern "C" {

#define ACCESS(name, size, access) \
    void __tsan_##name##read##size(void* address) { access(address, size, false); } \
    void __tsan_##name##write##size(void* address) { access(address, size, true); } \
    void __tsan_##name##read_write##size(void* address) { \
        access(address, size, false); \
        access(address, size, true); \
    }
#define ACCESSES(name, access) \
    ACCESS(name, 1, access) ACCESS(name, 2, access) ACCESS(name, 4, access) ACCESS(name, 8, access) \
    ACCESS(name, 16, access)
#define PLAIN(address, size, write) touch(address, size, write, false, HERE)
#define UNALIGNED(address, size, write) touch(address, size, write, false, HERE, false, false)
#define VOLATILE(address, size, write) touch_volatile(address, size, write, HERE, true)
#define UNALIGNED_VOLATILE(address, size, write) touch_volatile(address, size, write, HERE, false)
ACCESSES(, PLAIN)
ACCESSES(unaligned_, UNALIGNED)
ACCESSES(volatile_, VOLATILE)
ACCESSES(unaligned_volatile_, UNALIGNED_VOLATILE)

// What follows at the address is an atomic operation; a store is one that does not look at the old value.
void __emulator_atomic(const volatile void* address, bool store) {
    if (!watched()) return;
    atomic_address = address;
    atomic_step = Atomic::reads;
    atomic_is_store = store;
}

void __tsan_read_range(void* address, size_t size) { touch(address, size, false, false, HERE, false, false); }
void __tsan_write_range(void* address, size_t size) { touch(address, size, true, false, HERE, false, false); }

// Copies of whole objects: clang++ calls the first three by itself, cuda_runtime.h sends memcpy and its kin
// to the others.
#define COPY(name, function) \
    void* name(void* to, const void* from, size_t size) { \
        touch(from, size, false, false, HERE, false, false); \
        touch(to, size, true, false, HERE, false, false); \
        if (watched()) watch_copy(static_cast<char*>(to), static_cast<const char*>(from), size); \
        return std::function(to, from, size); \
    }
#define FILL(name) \
    void* name(void* to, int value, size_t size) { \
        touch(to, size, true, false, HERE, false, false); \
        return std::memset(to, value, size); \
    }
COPY(__tsan_memcpy, memcpy)
COPY(__tsan_memmove, memmove)
FILL(__tsan_memset)
COPY(__emulator_copy, memcpy)
COPY(__emulator_move, memmove)
FILL(__emulator_fill)

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
