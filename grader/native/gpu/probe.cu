// What the memory of this device can do at best: a kernel that only reads and writes streams.
//
// Every time is judged against the probe that moves the same bytes over the same footprint. The
// file is compiled once for each variant, by NVRTC or by nvcc, hence no #include and these macros:
//
//     READS, WRITES   streams read and written, 0 to 4 each, and at least one stream read
//     UNROLL          vectors of each stream in flight at once in a thread
//     HINT            0 plain loads and stores
//                     1 streaming ones: loads leave nothing in L1, stores are the first to be
//                       evicted from L2
//                     2 plain ones, and a block stores only when all of its loads have arrived:
//                       the memory turns from reading to writing less often
//
// Which variant is the fastest depends on the device and on the size, so the ceiling is the best of
// a few. Launch it with THREADS threads a block and ceil(vectors / (THREADS * UNROLL)) blocks.
#if READS < 1 || READS > 4 || WRITES < 0 || WRITES > 4 || UNROLL < 1 || HINT < 0 || HINT > 2
#error "probe.cu: READS, WRITES, UNROLL or HINT is out of range"
#endif

#define THREADS 256

// Streams of equal length, passed by value; those beyond READS and WRITES may be null.
struct Streams {
    const float4* in[4];
    float4* out[4];
};

__device__ __forceinline__ float4 load(const float4* from) {
#if HINT == 1
    float4 v;
    asm("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
        : "l"(from));
    return v;
#else
    return *from;
#endif
}

__device__ __forceinline__ void store(float4* to, float4 v) {
#if HINT == 1
    __stcs(to, v);
#else
    *to = v;
#endif
}

__device__ __forceinline__ float4 sum(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Every output stream becomes the sum of the input streams: out[s][i] = in[0][i] + in[1][i] + ...
extern "C" __global__ void __launch_bounds__(THREADS)
probe(Streams streams, unsigned long long vectors) {
    const unsigned long long first =
        (unsigned long long)blockIdx.x * (THREADS * UNROLL) + threadIdx.x;

    // All loads are issued before the first value is used: that is what hides the latency.
    float4 loaded[READS][UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        const unsigned long long i = first + u * THREADS;
#pragma unroll
        for (int s = 0; s < READS; s++) {
            loaded[s][u] = i < vectors ? load(streams.in[s] + i) : make_float4(0, 0, 0, 0);
        }
    }

#if HINT == 2
    float4 arrived = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
#pragma unroll
        for (int s = 0; s < READS; s++) arrived = sum(arrived, loaded[s][u]);
    }
    // Needs every value that was loaded; no thread passes before all have come this far.
    if (__syncthreads_or((arrived.x + arrived.y) + (arrived.z + arrived.w) == 1.0f)) __threadfence();
#endif

    float4 all = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        float4 total = loaded[0][u];
#pragma unroll
        for (int s = 1; s < READS; s++) total = sum(total, loaded[s][u]);

        const unsigned long long i = first + u * THREADS;
#pragma unroll
        for (int s = 0; s < WRITES; s++) {
            if (i < vectors) store(streams.out[s] + i, total);
        }
        all = sum(all, total);
    }

    // Without a store nothing would need the loads, and the compiler would remove them. So they
    // decide about a fence, which changes no result.
    if (WRITES == 0 && (all.x + all.y) + (all.z + all.w) == 1.0f) __threadfence();
}
