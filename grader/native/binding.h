// Exposes kernel launchers to Python: BIND_LAUNCHER(module, launch_something).
//
// A launcher is an extern "C" function of device pointers, numbers and a stream. Its C signature
// says everything: `const float*` is an input, `float*` an output, numbers are passed on, the
// stream is ours. In Python the stream argument is left out, and a pointer may be given as
//   - an int: a device address from allocate() (the grading worker does this), or
//   - anything with the buffer protocol and the right element type, such as a numpy array: it is
//     copied to the device, and back if the pointer is not const (students and notebooks do this).
//
// The same source serves both backends: <cuda_runtime.h> is NVIDIA's or the emulator's.
#pragma once

// pybind11 first: CUDA's __noinline__ macro would break the standard library's attributes
#include <pybind11/pybind11.h>

#include <cuda_runtime.h>

#include "device.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace kernel_grader {

namespace py = pybind11;

// The name of an argument's C type as Python sees it, e.g. "const float*".
template <class T>
std::string type_name() {
    using Bare = std::remove_cv_t<std::remove_pointer_t<T>>;
    if constexpr (std::is_same_v<T, cudaStream_t>) {
        return "stream";
    } else if constexpr (std::is_pointer_v<T>) {
        const bool is_const = std::is_const_v<std::remove_pointer_t<T>>;
        return (is_const ? "const " : "") + type_name<Bare>() + "*";
    } else if constexpr (std::is_floating_point_v<Bare>) {
        return sizeof(Bare) == 4 ? "float" : "double";
    } else {
        return (std::is_signed_v<Bare> ? "int" : "uint") + std::to_string(8 * sizeof(Bare));
    }
}

// Host arrays that were copied to the device for one call, and go back after it.
class Staging {
public:
    template <class T>
    T* pointer(const py::handle& given, std::size_t position) {
        if (py::isinstance<py::int_>(given)) {
            return reinterpret_cast<T*>(given.cast<std::uintptr_t>());
        }
        if (copies_.empty()) {
            schedule(0, kSteps);
        }
        constexpr bool is_output = !std::is_const_v<T>;
        copies_.emplace_back(given, type_name<std::remove_const_t<T>>(), sizeof(T), is_output,
                             position);
        return static_cast<T*>(copies_.back().device());
    }

    // Waits, copies outputs back, and throws when the launch failed.
    void finish() {
        if (copies_.empty()) {
            return;
        }
        const py::tuple ended = synchronize();  // sees launch errors that nobody asked about, too
        if (ended[0].cast<int>() != 0) {
            throw std::runtime_error(ended[2].cast<std::string>());
        }
        for (HostCopy& copy : copies_) {
            copy.copy_back();
        }
    }

private:
    // An endless loop in a notebook must end too: some minutes of a loop without anything in it.
    static constexpr std::uint64_t kSteps = 100'000'000'000;

    std::deque<HostCopy> copies_;  // a deque: elements stay where they are
};

// Converts Python arguments one by one, in the order of the C signature.
class Arguments {
public:
    Arguments(const py::args& given, Staging& staging) : given_(given), staging_(staging) {}

    template <class T>
    T next() {
        if constexpr (std::is_same_v<T, cudaStream_t>) {
            return stream();
        } else {
            const std::size_t position = taken_++;
            const py::handle value = given_[position];
            if constexpr (std::is_pointer_v<T>) {
                return staging_.pointer<std::remove_pointer_t<T>>(value, position);
            } else {
                return value.cast<T>();
            }
        }
    }

private:
    const py::args& given_;
    Staging& staging_;
    std::size_t taken_ = 0;
};

#ifndef __CUDA_EMULATOR__
// <launcher>_batch(list of argument tuples, list of (to, from, bytes)): calls the launcher once for
// each, back to back, on device addresses. Returns the two times of Stopwatch::stop(). The first
// call's launches are noted.
template <class... A>
void bind_batch(py::module_& module, const char* name, void (*launcher)(A...)) {
    module.def((std::string(name) + "_batch").c_str(), [launcher](const py::list& calls,
                                                                  const py::list& kept) {
        Staging staging;
        std::vector<std::tuple<A...>> batch;
        for (const py::handle& call : calls) {
            const py::args given = py::reinterpret_borrow<py::args>(call);
            Arguments arguments(given, staging);
            batch.push_back(std::tuple<A...>{arguments.next<A>()...});
        }
        std::vector<Keep> keep;
        for (const py::handle& one : kept) {
            const auto parts = py::reinterpret_borrow<py::tuple>(one);
            keep.emplace_back(parts[0].cast<std::uintptr_t>(), parts[1].cast<std::uintptr_t>(),
                              parts[2].cast<std::size_t>());
        }
        Stopwatch watch;
        Launches::seen().begin();
        watch.start();
        for (const std::tuple<A...>& values : batch) {
            std::apply(launcher, values);
            Launches::seen().end();
        }
        return watch.stop(keep);
    });
}
#endif

template <class... A>
void bind_launcher(py::module_& module, const char* name, void (*launcher)(A...)) {
    if (launcher == nullptr) {  // weak: the submission does not define it
        return;
    }
    py::list signature;
    (signature.append(type_name<A>()), ...);
    module.attr("launchers")[name] = signature;
    constexpr std::size_t expected = (0 + ... + (std::is_same_v<A, cudaStream_t> ? 0 : 1));
    module.def(name, [name, launcher](const py::args& given) {
        if (given.size() != expected) {
            throw py::type_error(std::string(name) + " takes " + std::to_string(expected) +
                                 " arguments (the stream is left out), not " +
                                 std::to_string(given.size()));
        }
        Staging staging;
        Arguments arguments(given, staging);
        // Braces, unlike parentheses, evaluate left to right.
        std::tuple<A...> values{arguments.next<A>()...};
        std::apply(launcher, values);
        staging.finish();
    });
#ifndef __CUDA_EMULATOR__
    bind_batch(module, name, launcher);
#endif
}

}  // namespace kernel_grader

// The weak symbol lets a submission without this launcher still link: only its own part fails then.
// (A pragma, since g++ ignores the attribute on a redeclaration in a function.)
#define KERNEL_GRADER_PRAGMA(text) _Pragma(#text)
#define BIND_LAUNCHER(module, launcher)                             \
    do {                                                            \
        KERNEL_GRADER_PRAGMA(weak launcher)                         \
        kernel_grader::bind_device(module);                         \
        kernel_grader::bind_launcher(module, #launcher, &launcher); \
    } while (false)
