// Warp operations: shuffles, votes, matches, reductions, the active mask.
#pragma once

#include "block.h"

namespace emulator {

// No lane of the warp is ready: completes an operation that no longer waits for anyone, because the
// others have returned, or tells lanes that ask who is active. True if a lane became ready.
bool settle_warp(Warp& warp);

// Lanes of the warp wait in an operation that can never complete: says which and why.
void report_stuck_warp(const Warp& warp);

}  // namespace emulator
