// refused
// expect: inline_ptx\.cu:5:5: error: inline PTX \(asm\) cannot run on the CPU
__device__ unsigned lane_id() {
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
__global__ void k(unsigned* out) { out[threadIdx.x] = lane_id(); }
int main() { return 0; }
