// Runs the kernels of arrays.cu on requests from one file, and writes what they found to another.
// A request: which kernel, count, length of the base, blocks (all unsigned long long), a Variation,
// the order of its rows, then the data. tests/test_arrays.py writes and reads them.
#include "arrays.cu"

#include <cstdio>
#include <cstdlib>
#include <vector>

using Number = unsigned long long;

constexpr int THREADS = 64;
constexpr unsigned POISON = 0x7fc0beefu;
constexpr unsigned GUARD = 0x7fa55aa5u;

static FILE* from;
static FILE* to;

// Elements from the file, in device memory.
template <class T>
T* read(Number count) {
    std::vector<T> data(count + 1);
    if (std::fread(data.data(), sizeof(T), count, from) != count) std::exit(2);
    T* made = nullptr;
    cudaMalloc(&made, (count + 1) * sizeof(T));
    cudaMemcpy(made, data.data(), count * sizeof(T), cudaMemcpyHostToDevice);
    return made;
}

template <class T>
void write(const T* data, Number count) {
    std::vector<T> host(count);
    if (cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) {
        std::exit(3);
    }
    std::fwrite(host.data(), sizeof(T), count, to);
}

int main(int argc, char** argv) {
    if (argc != 3) return 1;
    from = std::fopen(argv[1], "rb");
    to = std::fopen(argv[2], "wb");
    Number head[5];
    while (std::fread(head, sizeof(Number), 5, from) == 5) {
        const Number count = head[1], base = head[2], blocks = head[3];
        if (head[4] != sizeof(Variation)) return 4;
        Variation v{};
        if (std::fread(&v, sizeof v, 1, from) != 1) return 5;
        v.order = read<unsigned>(v.rows);
        if (head[0] == 0) {
            float* out = read<float>(0);
            cudaMalloc(&out, (count + 1) * sizeof(float));
            vary<<<blocks, THREADS>>>(out, read<float>(base), count, v);
            write(out, count);
        } else if (head[0] == 1) {
            const float* got = read<float>(count);
            const double* value = read<double>(base);
            const double* allowed = read<double>(base);
            Verdict* verdict = read<Verdict>(1);
            compare<<<blocks, THREADS>>>(got, value, allowed, count, POISON, v, verdict);
            write(verdict, 1);
        } else {
            unsigned* words = read<unsigned>(count * base);
            std::vector<const unsigned*> where;
            for (Number guard = 0; guard < count; guard++) where.push_back(words + guard * base);
            const unsigned** places = nullptr;
            cudaMalloc(&places, count * sizeof(*places));
            cudaMemcpy(places, where.data(), count * sizeof(*places), cudaMemcpyHostToDevice);
            unsigned* damaged = nullptr;
            cudaMalloc(&damaged, count * sizeof(unsigned));
            guards<<<count, THREADS>>>(places, base, GUARD, damaged);
            write(damaged, count);
        }
    }
    std::fclose(to);
    return 0;
}
