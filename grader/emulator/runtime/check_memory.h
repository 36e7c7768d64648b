// Whether an access may touch what it touches.
#pragma once

#include "watch.h"

namespace emulator::checker {

// All checks of one access of device code.
void check_access(const Access& access, const Thread& thread);

}  // namespace emulator::checker
