// What a launcher launches: which kernels, how large, and how many of their blocks a multiprocessor
// holds. The submission is linked with --wrap for the runtime's launch functions, so that these see
// every launch. Only ever information: no verdict rests on it.
#pragma once

#include <cuda_runtime.h>

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

namespace kernel_grader {

struct Launch {
    const void* kernel;
    unsigned blocks;
    unsigned threads;
    std::size_t dynamic_shared;
};

class Launches {
public:
    static Launches& seen() {
        static Launches all;
        return all;
    }

    void begin() {
        list_.clear();
        recording_ = true;
    }
    void end() { recording_ = false; }

    void note(const void* kernel, dim3 grid, dim3 block, std::size_t dynamic_shared) {
        if (!recording_ || list_.size() >= kMost) {
            return;
        }
        const Launch launch{kernel, grid.x * grid.y * grid.z, block.x * block.y * block.z,
                            dynamic_shared};
        for (const Launch& known : list_) {
            if (known.kernel == kernel && known.threads == launch.threads) {
                return;
            }
        }
        list_.push_back(launch);
    }

    // One line per kernel, tabs between: name, registers, bytes of local memory, of static and of
    // dynamic shared memory, blocks, threads per block, resident blocks per multiprocessor.
    std::string text() const {
        std::string made;
        for (const Launch& launch : list_) {
            cudaFuncAttributes about{};
            int resident = 0;
            if (cudaFuncGetAttributes(&about, launch.kernel) != cudaSuccess ||
                cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                    &resident, launch.kernel, static_cast<int>(launch.threads),
                    launch.dynamic_shared) != cudaSuccess) {
                cudaGetLastError();
                continue;
            }
            made += name(launch.kernel);
            for (const std::size_t number :
                 {static_cast<std::size_t>(about.numRegs), about.localSizeBytes,
                  about.sharedSizeBytes, launch.dynamic_shared,
                  static_cast<std::size_t>(launch.blocks),
                  static_cast<std::size_t>(launch.threads), static_cast<std::size_t>(resident)}) {
                made += "\t" + std::to_string(number);
            }
            made += "\n";
        }
        return made;
    }

private:
    static constexpr std::size_t kMost = 8;

    // The beginning of the kernel's signature; the other side looks for the name in it.
    static std::string name(const void* kernel) {
        const char* symbol = nullptr;
        if (cudaFuncGetName(&symbol, kernel) != cudaSuccess || symbol == nullptr) {
            cudaGetLastError();
            return "?";
        }
        int status = 0;
        char* plain = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
        std::string text = status == 0 && plain != nullptr ? plain : symbol;
        std::free(plain);
        return text.substr(0, 200);
    }

    bool recording_ = false;
    std::vector<Launch> list_;
};

}  // namespace kernel_grader

// __real_x is the runtime's own x; weak, so that a link without --wrap goes through as well.
extern "C" {
__attribute__((weak)) cudaError_t __real_cudaLaunchKernel(const void*, dim3, dim3, void**,
                                                          std::size_t, cudaStream_t);
__attribute__((weak)) cudaError_t __real___cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**,
                                                            std::size_t, cudaStream_t);
__attribute__((weak)) cudaError_t __real_cudaLaunchCooperativeKernel(const void*, dim3, dim3,
                                                                     void**, std::size_t,
                                                                     cudaStream_t);
__attribute__((weak)) cudaError_t __real_cudaLaunchKernelExC(const cudaLaunchConfig_t*,
                                                             const void*, void**);

cudaError_t __wrap_cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared, cudaStream_t stream) {
    kernel_grader::Launches::seen().note(kernel, grid, block, shared);
    return __real_cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                      std::size_t shared, cudaStream_t stream) {
    kernel_grader::Launches::seen().note(reinterpret_cast<const void*>(kernel), grid, block,
                                         shared);
    return __real___cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t __wrap_cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block,
                                               void** arguments, std::size_t shared,
                                               cudaStream_t stream) {
    kernel_grader::Launches::seen().note(kernel, grid, block, shared);
    return __real_cudaLaunchCooperativeKernel(kernel, grid, block, arguments, shared, stream);
}

cudaError_t __wrap_cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                       void** arguments) {
    kernel_grader::Launches::seen().note(kernel, config->gridDim, config->blockDim,
                                         config->dynamicSmemBytes);
    return __real_cudaLaunchKernelExC(config, kernel, arguments);
}
}
