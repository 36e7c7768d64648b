// Device memory that the grading process owns and this one maps: the grader fills the inputs and
// reads the outputs itself, on the device. Inputs are mapped read-only.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace kernel_grader {

// A function of the driver, found through the runtime: nothing has to be linked with libcuda.
template <class F>
F driver_function(const char* name) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status);
#endif
    if (error != cudaSuccess || found == nullptr) {
        throw std::runtime_error(std::string("the driver has no ") + name);
    }
    return reinterpret_cast<F>(found);
}

#define KERNEL_GRADER_DRIVER(name) kernel_grader::driver_function<decltype(&name)>(#name)

inline void check_driver(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) {
        throw std::runtime_error(std::string(what) + " failed with CUresult " +
                                 std::to_string(static_cast<int>(result)));
    }
}

// Maps memory from a file descriptor of the grader's; `size` is a multiple of the granularity.
inline std::uintptr_t map_shared(int fd, std::size_t size, bool writable) {
    cudaFree(nullptr);  // creates the context
    int device = 0;
    cudaGetDevice(&device);
    CUmemGenericAllocationHandle handle{};
    check_driver(KERNEL_GRADER_DRIVER(cuMemImportFromShareableHandle)(
                     &handle, reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd)),
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                 "importing shared memory");
    CUdeviceptr address = 0;
    check_driver(KERNEL_GRADER_DRIVER(cuMemAddressReserve)(&address, size, 0, 0, 0),
                 "reserving addresses");
    check_driver(KERNEL_GRADER_DRIVER(cuMemMap)(address, size, 0, handle, 0), "mapping");
    check_driver(KERNEL_GRADER_DRIVER(cuMemRelease)(handle), "releasing a handle");
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags =
        writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    check_driver(KERNEL_GRADER_DRIVER(cuMemSetAccess)(address, size, &access, 1),
                 "setting access rights");
    return static_cast<std::uintptr_t>(address);
}

inline void unmap_shared(std::uintptr_t address, std::size_t size) {
    check_driver(KERNEL_GRADER_DRIVER(cuMemUnmap)(address, size), "unmapping");
    check_driver(KERNEL_GRADER_DRIVER(cuMemAddressFree)(address, size), "freeing addresses");
}

}  // namespace kernel_grader
