// Runs one variant of probe.cu: every output must be the sum of the inputs, and nothing else may be
// touched. Prints "ok".
#include "probe.cu"

#include <cstdio>
#include <vector>

int main() {
    for (const unsigned long long vectors : {1ull, 255ull, 257ull, 2500ull}) {
        const size_t floats = 4 * vectors, beyond = 64;
        Streams streams{};
        for (int s = 0; s < READS; s++) {
            std::vector<float> data(floats);
            for (size_t i = 0; i < floats; i++) data[i] = static_cast<float>(i % 1000 + 7 * s);
            float4* made = nullptr;
            cudaMalloc(&made, floats * sizeof(float));
            cudaMemcpy(made, data.data(), floats * sizeof(float), cudaMemcpyHostToDevice);
            streams.in[s] = made;
        }
        for (int s = 0; s < WRITES; s++) {
            cudaMalloc(&streams.out[s], (floats + beyond) * sizeof(float));
            cudaMemset(streams.out[s], 0, (floats + beyond) * sizeof(float));
        }
        const unsigned per_block = THREADS * UNROLL;
        probe<<<(vectors + per_block - 1) / per_block, THREADS>>>(streams, vectors);
        if (cudaDeviceSynchronize() != cudaSuccess) return 1;
        for (int s = 0; s < WRITES; s++) {
            std::vector<float> found(floats + beyond);
            cudaMemcpy(found.data(), streams.out[s], found.size() * sizeof(float),
                       cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < found.size(); i++) {
                float wanted = 0.0f;
                for (int in = 0; in < READS && i < floats; in++) wanted += i % 1000 + 7 * in;
                if (found[i] != wanted) {
                    std::printf("output %d, element %zu: %g, not %g\n", s, i, found[i], wanted);
                    return 1;
                }
            }
        }
    }
    std::puts("ok");
    return 0;
}
