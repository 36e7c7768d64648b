// __syncthreads() and its kin.
#pragma once

namespace emulator {

// All live threads have arrived: lets them go on. False if they came to different barriers: a fault.
bool release_barrier();

// Nobody can go on: says who waits for what.
void report_deadlock();

}  // namespace emulator
