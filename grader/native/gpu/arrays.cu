// Work on whole arrays of a submission's buffers, on the GPU, in the grader's own process: fill an
// input with a variation of its base data, compare an output with the varied reference, look for
// damaged guards. Compiled by NVRTC (no #include); grader/trial.py calls it.
//
// INDEX is the integer type that counts the elements of the arrays (32 bits where they suffice: a
// division of 64-bit numbers takes several times as long).
#ifndef INDEX
#define INDEX unsigned long long
#endif

constexpr int MAX_FACTORS = 4;

// One vector of factors +-2**k along a dimension of an array: element i of the array has index
// (i / stride) % extent there. extent 1 is a single factor for the whole array.
struct Factor {
    unsigned long long stride;
    unsigned long long extent;
    unsigned int key;
    int exponent;  // |k| is at most this, and at most 30
};

// How an array follows from its base: row r of the batch dimension is row
// order[(multiplier * r + shift) % rows] of the base, times the factors; the highest bit of an
// entry says that the row's sign is changed.
// `inner` elements lie between two rows, `rows * inner` between two slices.
struct Variation {
    unsigned long long rows;
    unsigned long long base_rows;
    unsigned long long inner;
    unsigned long long multiplier;
    unsigned long long shift;
    const unsigned int* order;
    int factors;
    Factor factor[MAX_FACTORS];
};

// A well-mixed 32-bit number (the finalizer of MurmurHash3); grader/variation.py has the same.
static __device__ unsigned int mix(unsigned int x) {
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    x ^= x >> 16;
    return x;
}

// Where an element of the varied array comes from, and what it is multiplied by.
struct Source {
    INDEX index;
    float factor;
};

static __device__ Source source_of(const Variation& v, INDEX i) {
    const INDEX inner = static_cast<INDEX>(v.inner);
    const INDEX rows = static_cast<INDEX>(v.rows);
    const INDEX rest = i / inner;
    const INDEX column = i - rest * inner;
    const INDEX slice = rest / rows;
    const unsigned long long row = rest - slice * rows;
    const unsigned int entry = v.order[(v.multiplier * row + v.shift) % v.rows];
    const INDEX from = entry & 0x7fffffffu;
    Source source;
    source.index = (slice * static_cast<INDEX>(v.base_rows) + from) * inner + column;
    source.factor = entry >> 31 ? -1.0f : 1.0f;
    for (int f = 0; f < v.factors; f++) {
        const unsigned int at =
            static_cast<unsigned int>((i / static_cast<INDEX>(v.factor[f].stride)) %
                                      static_cast<INDEX>(v.factor[f].extent));
        const unsigned int bits = mix(at ^ v.factor[f].key);
        const int span = 2 * v.factor[f].exponent + 1;
        const int k = static_cast<int>((bits & 0xffffu) % span) - v.factor[f].exponent;
        // +-2**k, put together from its bits: exact whatever exp2f() is good for
        source.factor *=
            __uint_as_float((bits & 0x80000000u) | static_cast<unsigned int>(127 + k) << 23);
    }
    return source;
}

extern "C" __global__ void vary(float* to, const float* base, unsigned long long count,
                                Variation v) {
    const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    for (unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        const Source source = source_of(v, static_cast<INDEX>(i));
        to[i] = base[source.index] * source.factor;
    }
}

// What a comparison found. `first` starts at the largest number, the others at 0.
struct Verdict {
    unsigned long long wrong;
    unsigned long long first;
    unsigned long long unwritten;
    unsigned int worst;  // bits of the largest error in units of the allowed one
};

// Accepted iff finite and |got - value| <= allowed, as in grader/compare.py.
extern "C" __global__ void compare(const float* got, const double* value, const double* allowed,
                                   unsigned long long count, unsigned int poison, Variation v,
                                   Verdict* verdict) {
    const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    float worst = 0.0f;
    for (unsigned long long i = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
        const Source source = source_of(v, static_cast<INDEX>(i));
        const INDEX from = source.index;
        const double factor = source.factor;
        const float element = got[i];
        const double error = fabs(static_cast<double>(element) - factor * value[from]);
        const double bound = fabs(factor) * allowed[from];
        if (!(error <= bound) || isinf(element)) {  // !(<=), so that a NaN is wrong
            atomicAdd(&verdict->wrong, 1ull);
            atomicMin(&verdict->first, i);
            if (__float_as_uint(element) == poison) atomicAdd(&verdict->unwritten, 1ull);
        }
        const float used = static_cast<float>(error / bound);
        worst = used > worst ? used : worst;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        worst = fmaxf(worst, __shfl_xor_sync(0xffffffffu, worst, offset));
    }
    if (threadIdx.x % 32 == 0 && worst > 0.0f) atomicMax(&verdict->worst, __float_as_uint(worst));
}

// Block b looks at the `words` words from where[b] on; damaged[b] becomes 1 + the last (before the
// array) or the first (after it) damaged word. Guards before an array have even numbers.
extern "C" __global__ void guards(const unsigned int* const* where, unsigned int words,
                                  unsigned int pattern, unsigned int* damaged) {
    const bool before = blockIdx.x % 2 == 0;
    __shared__ unsigned int found;
    if (threadIdx.x == 0) found = before ? 0u : 0xffffffffu;
    __syncthreads();
    for (unsigned int i = threadIdx.x; i < words; i += blockDim.x) {
        if (where[blockIdx.x][i] != pattern) {
            if (before) {
                atomicMax(&found, i + 1);
            } else {
                atomicMin(&found, i + 1);
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) damaged[blockIdx.x] = found == 0xffffffffu ? 0u : found;
}
