// Device memory and control, as the grading worker uses them from Python.
#pragma once

// pybind11 first: CUDA's __noinline__ macro would break the standard library's attributes
#include <pybind11/pybind11.h>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#ifdef __CUDA_EMULATOR__
#include <emulator/control.h>
#else
#include "launches.h"
#include "production.h"
#include "shared.h"
#endif

namespace kernel_grader {

namespace py = pybind11;

// What the device says about an error; the emulator knows the line and the reason.
inline std::string describe(cudaError_t error) {
#ifdef __CUDA_EMULATOR__
    const std::string fault = emu_fault();
    if (!fault.empty()) {
        return fault;
    }
#endif
    return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}

inline void check(cudaError_t error) {
    if (error != cudaSuccess) {
        throw std::runtime_error(describe(error));
    }
}

// The stream that launchers get: never the default one, so that a submission that ignores its
// `stream` argument is used as it would be in a real program.
inline cudaStream_t stream() {
    static cudaStream_t made = [] {
        cudaStream_t created = nullptr;
        check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking));
        return created;
    }();
    return made;
}

// A host array on the device for the length of one call.
class HostCopy {
public:
    HostCopy(const py::handle& array, const std::string& type, std::size_t item_size,
             bool is_output, std::size_t position)
        : info_(request(array, is_output, position)), is_output_(is_output) {
        const std::string given = info_.format == "f"   ? "float"
                                  : info_.format == "d" ? "double"
                                                        : "format '" + info_.format + "'";
        const bool integer = type != "float" && type != "double";
        if (info_.itemsize != static_cast<py::ssize_t>(item_size) || (!integer && given != type)) {
            throw py::type_error("argument " + std::to_string(position + 1) + " must hold " +
                                 type + " elements, not " + given);
        }
        check(cudaMalloc(&device_, bytes()));
        check(cudaMemcpy(device_, info_.ptr, bytes(), cudaMemcpyHostToDevice));
    }
    HostCopy(const HostCopy&) = delete;
    HostCopy& operator=(const HostCopy&) = delete;
    ~HostCopy() { cudaFree(device_); }

    void* device() const { return device_; }

    void copy_back() {
        if (is_output_) {
            check(cudaMemcpy(info_.ptr, device_, bytes(), cudaMemcpyDeviceToHost));
        }
    }

private:
    static py::buffer_info request(const py::handle& array, bool writable, std::size_t position) {
        if (!py::isinstance<py::buffer>(array)) {
            throw py::type_error("argument " + std::to_string(position + 1) +
                                 " must be an array or a device address (an int)");
        }
        py::buffer_info info = py::reinterpret_borrow<py::buffer>(array).request(writable);
        py::ssize_t dense = info.itemsize;
        for (py::ssize_t axis = info.ndim; axis-- > 0;) {
            if (info.shape[axis] > 1 && info.strides[axis] != dense) {
                throw py::type_error("argument " + std::to_string(position + 1) +
                                     " must be C-contiguous (numpy.ascontiguousarray)");
            }
            dense *= info.shape[axis];
        }
        return info;
    }

    std::size_t bytes() const { return static_cast<std::size_t>(info_.size * info_.itemsize); }

    py::buffer_info info_;
    bool is_output_;
    void* device_ = nullptr;
};

inline std::uintptr_t allocate(std::size_t bytes) {
    void* made = nullptr;
    check(cudaMalloc(&made, bytes));
#ifndef __CUDA_EMULATOR__
    check(cudaMemset(made, 0xff, bytes));  // what is read before it was produced is NaN
#endif
    return reinterpret_cast<std::uintptr_t>(made);
}

inline void release(std::uintptr_t address) {
#ifndef __CUDA_EMULATOR__
    Production::line().forget(reinterpret_cast<void*>(address));
#endif
    check(cudaFree(reinterpret_cast<void*>(address)));
}

// The data will be there, for work on stream(), once produce() was called.
inline void copy_in(std::uintptr_t to, const py::buffer& from) {
    const py::buffer_info info = from.request();
    const auto bytes = static_cast<std::size_t>(info.size * info.itemsize);
#ifdef __CUDA_EMULATOR__
    check(cudaMemcpy(reinterpret_cast<void*>(to), info.ptr, bytes, cudaMemcpyHostToDevice));
#else
    check(Production::line().add(reinterpret_cast<void*>(to), info.ptr, bytes));
#endif
}

// Starts, but does not wait for, the work on stream() that puts the data in place.
inline void produce() {
#ifdef __CUDA_EMULATOR__
    emu_inputs_ready_on(stream());
#else
    check(Production::line().start(stream()));
#endif
}

// Enqueues, behind what the launcher put on stream(), the copies that copy_out() reads. An error is
// most likely one of the launcher's kernels, and synchronize() reports it.
inline void collect() {
#ifdef __CUDA_EMULATOR__
    emu_outputs_taken_on(stream());
#else
    static_cast<void>(Production::line().collect(stream()));
#endif
}

inline void copy_out(const py::buffer& to, std::uintptr_t from) {
    const py::buffer_info info = to.request(true);
    const void* data = reinterpret_cast<const void*>(from);
#ifndef __CUDA_EMULATOR__
    data = Production::line().collected(reinterpret_cast<void*>(from));
#endif
    check(cudaMemcpy(info.ptr, data, static_cast<std::size_t>(info.size * info.itemsize),
                     cudaMemcpyDeviceToHost));
}

#ifndef __CUDA_EMULATOR__
// Before a batch: the device is idle, and the cache keeps nothing that an earlier call asked it to.
inline void settle() {
    check(cudaDeviceSynchronize());
    cudaCtxResetPersistingL2Cache();
    cudaGetLastError();  // old cards have no such thing
}

// An array to copy once the timed work is done: to, from, bytes.
using Keep = std::tuple<std::uintptr_t, std::uintptr_t, std::size_t>;

// Times what is launched between start() and stop().
class Stopwatch {
public:
    Stopwatch() {
        for (cudaEvent_t* event : {&start_, &done_, &kept_, &settled_}) {
            check(cudaEventCreate(event));
        }
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;
    ~Stopwatch() {
        for (cudaEvent_t event : {start_, done_, kept_, settled_}) {
            cudaEventDestroy(event);
        }
    }

    void start() { check(cudaEventRecord(start_, stream())); }

    // Milliseconds until the work on stream() was done, and until the whole device was idle: work
    // on other streams counts too. (0, 0) after an error, which synchronize() then reports.
    // In between, and not counted, `keep` is copied in the order of stream(): what that stream was
    // not made to wait for is not in the copy.
    py::tuple stop(const std::vector<Keep>& keep) {
        cudaEventRecord(done_, stream());
        for (const auto& [to, from, bytes] : keep) {
            cudaMemcpyAsync(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes,
                            cudaMemcpyDeviceToDevice, stream());
        }
        cudaEventRecord(kept_, stream());
        float done = 0.0F;
        float kept = 0.0F;
        float settled = 0.0F;
        if (cudaDeviceSynchronize() == cudaSuccess) {
            cudaEventRecord(settled_, stream());
            cudaEventSynchronize(settled_);
            cudaEventElapsedTime(&done, start_, done_);
            cudaEventElapsedTime(&kept, done_, kept_);
            cudaEventElapsedTime(&settled, start_, settled_);
        }
        return py::make_tuple(done, settled - kept);
    }

private:
    cudaEvent_t start_ = nullptr;
    cudaEvent_t done_ = nullptr;
    cudaEvent_t kept_ = nullptr;
    cudaEvent_t settled_ = nullptr;
};
#endif

// Why no kernel can run here; empty on a machine that works. Asked before any launcher is called:
// a GPU that is not there is no fault of the submission's.
inline std::string why_unusable() {
#ifdef __CUDA_EMULATOR__
    return "";
#else
    const cudaError_t error = cudaFree(nullptr);  // creates the context
    return error == cudaSuccess ? "" : describe(error);
#endif
}

// Waits for everything that was launched. Returns (error code, kind, sentence); (0, "", "") is
// success. A launch error that nobody asked about counts too.
inline py::tuple synchronize() {
    std::fflush(nullptr);  // what host code printed: the process may be killed at any time
    cudaError_t error = cudaGetLastError();
    const cudaError_t finished = cudaDeviceSynchronize();
    if (finished != cudaSuccess) {
        error = finished;
    }
    std::string kind;
#ifdef __CUDA_EMULATOR__
    kind = emu_fault_kind();
    if (!kind.empty() && error == cudaSuccess) {
        error = cudaErrorUnknown;
    }
#endif
    if (error == cudaSuccess) {
        return py::make_tuple(0, "", "");
    }
    return py::make_tuple(static_cast<int>(error), kind, describe(error));
}

// Order of blocks, warps and lanes on the emulator; a GPU decides for itself.
inline void schedule([[maybe_unused]] std::uint64_t seed,
                     [[maybe_unused]] std::uint64_t step_budget) {
#ifdef __CUDA_EMULATOR__
    emu_clear_fault();  // notes of the call before must not explain this one
    emu_clear_findings();
    emu_set_schedule(seed);
    emu_set_step_budget(step_budget);
#endif
}

// Something doubtful that the last call did and that CUDA leaves undefined; "" if nothing was seen.
inline std::string note() {
#ifdef __CUDA_EMULATOR__
    return emu_note();
#else
    return "";
#endif
}

// Who watches the calls that follow, on the emulator: 1 its checkers, 2 its counters, 0 nobody.
inline void watch([[maybe_unused]] unsigned who) {
#ifdef __CUDA_EMULATOR__
    if (who != 0) {
        emu_clear_findings();
        emu_reset_counters();
    }
    emu_watch(who);
#endif
}

// What those who watched have to tell: findings, one a line, an empty line, and the counters as
// JSON. "" when nobody watched.
inline std::string report() {
#ifdef __CUDA_EMULATOR__
    const std::string findings = emu_findings();
    const std::string counters = emu_counters();
    return findings.empty() && counters.empty() ? "" : findings + "\n" + counters;
#else
    return "";
#endif
}

// The array holds a pattern that nobody may read: it is an output.
inline void uninitialised([[maybe_unused]] std::uintptr_t address,
                          [[maybe_unused]] std::size_t bytes) {
#ifdef __CUDA_EMULATOR__
    emu_uninitialised(reinterpret_cast<void*>(address), bytes);
#endif
}

#ifdef __CUDA_EMULATOR__
// Zeros that take memory only where they are written.
inline std::uintptr_t reserve(std::size_t bytes) {
    void* made = emu_allocate_zeros(bytes);
    if (made == nullptr) {
        throw std::runtime_error("no device memory left");
    }
    return reinterpret_cast<std::uintptr_t>(made);
}

// Lays pieces of a file into reserved memory, from these offsets on; see emu_map().
inline void lay(std::uintptr_t address, std::size_t bytes, int file, const py::sequence& offsets,
                std::size_t piece, bool shared) {
    void* begin = reinterpret_cast<void*>(address);
    std::vector<std::uint64_t> from;
    for (const auto& offset : offsets) {
        from.push_back(offset.cast<std::uint64_t>());
    }
    if (from.size() * piece != bytes ||
        emu_map(begin, bytes, file, from.data(), piece, shared ? 1 : 0) == 0) {
        throw std::runtime_error("cannot map memory of the grader's");
    }
}

// Counts of launches that are sampled, for a machine; see emu_sample() and emu_set_machine().
inline void sample(unsigned blocks, std::uint64_t accesses, const std::string& machine) {
    emu_sample(blocks, accesses);
    emu_set_machine(machine.c_str());
}
#endif

inline void name([[maybe_unused]] std::uintptr_t address, [[maybe_unused]] std::size_t bytes,
                 [[maybe_unused]] const char* label) {
#ifdef __CUDA_EMULATOR__
    emu_name_array(reinterpret_cast<void*>(address), bytes, label);
#endif
}

// Defines the functions above in the module, once.
inline void bind_device(py::module_& module) {
    if (py::hasattr(module, "launchers")) {
        return;
    }
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a crash must not swallow what was printed
    module.attr("launchers") = py::dict();
    module.def("allocate", &allocate);
    module.def("release", &release);
    module.def("copy_in", &copy_in);
    module.def("copy_out", &copy_out);
    module.def("produce", &produce);
    module.def("collect", &collect);
    module.def("synchronize", &synchronize);
    module.def("why_unusable", &why_unusable);
    module.def("schedule", &schedule);
    module.def("name", &name);
    module.def("note", &note);
    module.def("watch", &watch);
    module.def("report", &report);
    module.def("uninitialised", &uninitialised);
#ifdef __CUDA_EMULATOR__
    module.def("reserve", &reserve);
    module.def("lay", &lay);
    module.def("sample", &sample);
#endif
#ifndef __CUDA_EMULATOR__
    module.def("map_shared", &map_shared);
    module.def("unmap_shared", &unmap_shared);
    module.def("settle", &settle);
    module.def("launches", [] { return Launches::seen().text(); });
#endif
}

}  // namespace kernel_grader
