// Several threads of the host share the device: kernels, copies and loops of their own.
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

__global__ void count(int* p, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(p, 1);
    __syncthreads();
}

int main() {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&wrong] {
            cudaStream_t stream;
            int* p;
            cudaStreamCreate(&stream);
            cudaMalloc(&p, sizeof(int));
            for (int round = 0; round < 10; round++) {
                cudaMemsetAsync(p, 0, sizeof(int), stream);
                count<<<3, 64, 0, stream>>>(p, 500);
                int found = 0;
                cudaMemcpyAsync(&found, p, sizeof(int), cudaMemcpyDeviceToHost, stream);
                cudaStreamSynchronize(stream);
                if (found != 1500) wrong++;
                for (int i = 0; i < 50000; i++) wrong += i < 0;
            }
            cudaFree(p);
            cudaStreamDestroy(stream);
        });
    }
    for (std::thread& thread : threads) thread.join();
    puts(wrong == 0 ? "ok" : "wrong");
}
