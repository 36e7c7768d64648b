// Inputs that are still being produced when a launcher is called, as in a real program: the data lie
// ready in device memory and are copied into place by work on the launcher's stream, after a pause.
// A kernel that does not wait for that stream (it was launched on another one) finds old data. And
// outputs are taken away by work on that stream, as soon as the launcher has returned.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <thread>
#include <vector>

namespace kernel_grader {

class Production {
public:
    static Production& line() {
        static Production only;
        return only;
    }

    // `bytes` from host memory shall be at `to`, in device memory, once the line has run.
    cudaError_t add(void* to, const void* from, std::size_t bytes) {
        Copy& ready = ready_[to];
        if (ready.capacity < bytes) {
            cudaFree(ready.data);
            ready = Copy{};
            const cudaError_t error = cudaMalloc(&ready.data, bytes);
            if (error != cudaSuccess) {
                return error;
            }
            ready.capacity = bytes;
        }
        ready.bytes = bytes;
        waiting_.push_back(to);
        return cudaMemcpy(ready.data, from, bytes, cudaMemcpyHostToDevice);
    }

    cudaError_t start(cudaStream_t stream) {
        cudaError_t error = cudaLaunchHostFunc(stream, &pause, nullptr);
        for (void* to : waiting_) {
            const Copy& ready = ready_[to];
            if (error == cudaSuccess) {
                error = cudaMemcpyAsync(to, ready.data, ready.bytes, cudaMemcpyDeviceToDevice,
                                        stream);
            }
        }
        current_.swap(waiting_);
        waiting_.clear();
        return error;
    }

    // Copies everything that was produced last away again, in the order of `stream`: work that
    // stream() was not made to wait for is not in it.
    cudaError_t collect(cudaStream_t stream) {
        cudaError_t error = cudaSuccess;
        for (void* from : current_) {
            const Copy& ready = ready_[from];
            if (error == cudaSuccess) {
                error = cudaMemcpyAsync(ready.data, from, ready.bytes, cudaMemcpyDeviceToDevice,
                                        stream);
            }
        }
        return error;
    }

    // Where collect() put what was at `from`.
    const void* collected(void* from) const { return ready_.at(from).data; }

    void forget(void* to) {
        const auto found = ready_.find(to);
        if (found != ready_.end()) {
            cudaFree(found->second.data);
            ready_.erase(found);
        }
    }

private:
    struct Copy {
        void* data = nullptr;
        std::size_t capacity = 0;
        std::size_t bytes = 0;
    };

    // Longer than a launcher needs to get a kernel running on another stream.
    static void CUDART_CB pause(void*) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }

    std::map<void*, Copy> ready_;
    std::vector<void*> waiting_;
    std::vector<void*> current_;
};

}  // namespace kernel_grader
