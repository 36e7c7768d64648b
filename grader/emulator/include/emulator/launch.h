// Kernel launches. `k<<<g, b>>>(x)` arrives as `(configure(g, b), k(x))`, and the body of k as a
// lambda that the Kernel object receives once on the host, and runs for every thread of the grid.
#pragma once

#include <initializer_list>

#include "errors.h"
#include "vector_types.h"

extern "C" {
struct __emulator_pointer {
    const char* __name;
    const volatile void* __address;
};
void __emulator_configure(dim3 __grid, dim3 __block, size_t __shared_bytes, void* __stream, int __line,
                          const char* __file);
void __emulator_launched(void);
void __emulator_run(const char* __name, const struct __emulator_pointer* __pointers, int __count,
                    void (*__entry)(const void*), const void* __body, size_t __size);
}

namespace __emulator {

// Lives until the end of the launch expression.
struct Launch {
    Launch() = default;
    Launch(const Launch&) = delete;
    ~Launch() { __emulator_launched(); }
};

inline Launch configure(dim3 __grid, dim3 __block, size_t __shared_bytes = 0, cudaStream_t __stream = nullptr,
                        __EMULATOR_SITE__) {
    __emulator_configure(__grid, __block, __shared_bytes, __stream, __line, __file);
    return Launch();
}

template <class _Body>
void __run_thread(const void* __body) {
    _Body __mine(*static_cast<const _Body*>(__body));  // kernel parameters belong to the thread
    __mine();
}

struct Kernel {
    const char* __name;
    std::initializer_list<__emulator_pointer> __pointers;

    template <class _Body>
    void operator<<(const _Body& __body) const {
        __emulator_run(__name, __pointers.begin(), static_cast<int>(__pointers.size()), &__run_thread<_Body>, &__body,
                       sizeof(_Body));
    }
};
}  // namespace __emulator

#define __EMULATOR_KERNEL__(_name, ...) return ::__emulator::Kernel{#_name, {__VA_ARGS__}} << [=]() mutable
