// Vectors, unions, structures with holes, copies of memory.
struct Holes {
    char c;
    double d;
    int i;
};
struct Tagged {
    int count;
    float values[15];  // of which `count` are set
};
union Bits {
    float f;
    unsigned u;
    unsigned char bytes[4];
};

__global__ void structures(const float* x, Tagged* tagged, Holes* holes, float* out) {
    __shared__ Tagged shared[8];
    __shared__ Holes other[32];
    int t = threadIdx.x;
    if (t < 8) {
        shared[t].count = 3;
        for (int i = 0; i < 3; i++) shared[t].values[i] = x[t + i];
    }
    other[t].c = 1;
    other[t].i = t;
    other[t].d = 2.0;
    __syncthreads();
    Tagged copy = shared[t % 8];  // with what was never set
    if (t < 8) tagged[t] = copy;
    holes[t] = other[31 - t];
    Tagged again;
    memcpy(&again, &tagged[t % 8 == t ? t : 0], t < 8 ? sizeof again : 0);
    out[t] = t < 8 ? again.values[again.count - 1] : 0.0f;
}
__global__ void vectors(const float4* x, float2* out, int n) {
    __shared__ float4 rows[16];
    __shared__ float2 pairs[32];
    __shared__ Bits bits[32];
    int t = threadIdx.x;
    if (t < 16) rows[t] = x[t];  // the last one is set in part
    bits[t].f = t;
    __syncthreads();
    const float* flat = reinterpret_cast<const float*>(rows);
    pairs[t] = make_float2(2 * t < n ? flat[2 * t] : 0.0f, __uint_as_float(bits[31 - t].u ^ bits[t].bytes[3]));
    __syncthreads();
    out[t] = pairs[31 - t];
}
int main() {
    float *x, *out;
    Tagged* tagged;
    Holes* holes;
    cudaMalloc(&x, 64 * sizeof(float));
    cudaMalloc(&out, 64 * sizeof(float));
    cudaMalloc(&tagged, 8 * sizeof(Tagged));
    cudaMalloc(&holes, 32 * sizeof(Holes));
    cudaMemset(x, 0, 62 * sizeof(float));
    structures<<<1, 32>>>(x, tagged, holes, out);
    vectors<<<1, 32>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<float2*>(out), 62);
    cudaDeviceSynchronize();
}
