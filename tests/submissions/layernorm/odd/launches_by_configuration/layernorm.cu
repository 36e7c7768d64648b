#include <cstdio>
#include <cstdlib>
__global__ void f(float* y, float* vs, float* ms, const float* x, const float* g, const float* b, int H) {
  extern __shared__ float4 sm4[]; float* s = (float*)sm4; size_t o = (size_t)blockIdx.x * H; int t = threadIdx.x, n = blockDim.x; float a = 0;
  for (int i = t; i < H; i += n) a += x[o + i]; s[t] = a; __syncthreads(); for (int k = n / 2; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); } float m = s[0] / H; __syncthreads();
  a = 0; for (int i = t; i < H; i += n) a += (x[o + i] - m) * (x[o + i] - m);
  s[t] = a; __syncthreads(); for (int k = n / 2; k; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); } float v = s[0] / H;
  float r = rsqrtf(v + LN_EPSILON); for (int i = t; i < H; i += n) y[o + i] = (x[o + i] - m) * r * g[i] + b[i];
  if (!t) { ms[blockIdx.x] = m; vs[blockIdx.x] = v; } }
__global__ void gk(float* dg, float* db, const float* dy, const float* x, const float* vs, const float* ms, int r0, int r1, int H) { int c = blockIdx.x * blockDim.x + threadIdx.x; if (c >= H) return; float a = 0, b = 0; for (int r = r0; r < r1; r++) { float d = dy[(size_t)r * H + c]; b += d; a += d * (x[(size_t)r * H + c] - ms[r]) * rsqrtf(vs[r] + LN_EPSILON); } atomicAdd(dg + c, a); atomicAdd(db + c, b); }
void launch_layernorm(float* y, float* v, float* m, const float* x, const float* g, const float* b, int R, int H, cudaStream_t st) {
  int minGrid, block; cudaOccupancyMaxPotentialBlockSizeVariableSMem(&minGrid, &block, f, [](int n) -> size_t { return n * sizeof(float); }); while (block & (block - 1)) block &= block - 1;
  void* args[] = {&y, &v, &m, &x, &g, &b, &H}; cudaError_t e = cudaLaunchKernel((const void*)f, dim3(R), dim3(block), args, block * sizeof(float), st); if (e) printf("%s\n", cudaGetErrorName(e)); }
void launch_ln_bw_dgamma_dbeta(float* dg, float* db, const float* dy, const float* x, const float* v, const float* m, int R, int H, cudaStream_t st) {
  cudaEvent_t start, done[3]; cudaStream_t ss[3]; cudaEventCreateWithFlags(&start, cudaEventDisableTiming); cudaMemsetAsync(dg, 0, H * sizeof *dg, st); cudaMemsetAsync(db, 0, H * sizeof *db, st); cudaEventRecord(start, st);
  for (int i = 0; i < 3; i++) { cudaStreamCreateWithPriority(&ss[i], cudaStreamNonBlocking, 0); cudaEventCreate(&done[i]); cudaStreamWaitEvent(ss[i], start, 0); int lo = (long)R * i / 3, hi = (long)R * (i + 1) / 3;
    cudaLaunchConfig_t cfg = {}; cfg.gridDim = dim3((H + 127) / 128); cfg.blockDim = 128; cfg.stream = ss[i]; cfg.dynamicSmemBytes = 0; cudaLaunchAttribute at[1]; at[0].id = cudaLaunchAttributePriority; at[0].val.priority = 0; cfg.attrs = at; cfg.numAttrs = 1;
    cudaLaunchKernelEx(&cfg, gk, dg, db, dy, x, v, m, lo, hi, H); cudaEventRecord(done[i], ss[i]); cudaStreamWaitEvent(st, done[i]); cudaEventDestroy(done[i]); cudaStreamDestroy(ss[i]); }
  cudaEventDestroy(start); }
__global__ void ik(float* dx, const float* dy, const float* x, const float* g, const float* vs, const float* ms, int R, int H) { // warp per row, grid stride over rows
  const int lane = threadIdx.x & 31, warps = gridDim.x * blockDim.x >> 5; for (int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5; row < R; row += warps) { size_t o = (size_t)row * H; float a = 0, b = 0, m = ms[row], r = rsqrtf(vs[row] + LN_EPSILON); for (int i = lane; i < H; i += 32) { float d = dy[o + i] * g[i]; a += d; b += d * (x[o + i] - m) * r; } for (int k = 1; k < 32; k <<= 1) { a += __shfl_xor_sync(~0u, a, k); b += __shfl_xor_sync(~0u, b, k); } a /= H, b /= H; for (int i = lane; i < H; i += 32) dx[o + i] = (dy[o + i] * g[i] - a - (x[o + i] - m) * r * b) * r; } }
void launch_ln_bw_dinp(float* dx, const float* dy, const float* x, const float* g, const float* v, const float* m, int R, int H, cudaStream_t st) {
  cudaDeviceProp p; cudaGetDeviceProperties(&p, 0); int per; cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per, ik, 256, 0); cudaFuncAttributes fa; cudaFuncGetAttributes(&fa, ik); if (fa.maxThreadsPerBlock < 256) abort();
  auto *k = &ik; cudaFuncSetCacheConfig(ik, cudaFuncCachePreferL1); (*k)<<<per * p.multiProcessorCount, 256, 0, st>>>(dx, dy, x, g, v, m, R, H); cudaDeviceSynchronize(); cudaError_t err = cudaGetLastError(); if (err != cudaSuccess) fprintf(stderr, "%s\n", cudaGetErrorString(err)); }
