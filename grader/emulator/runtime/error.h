// The error state of the runtime API.
#pragma once

#include "../include/emulator/errors.h"

namespace emulator {

// An error that stays until the process ends, as after a fault on a real device.
void set_sticky_error(cudaError_t error);
cudaError_t sticky_error();
// Makes `error` the last error and returns it; the sticky error, if there is one, takes precedence.
cudaError_t finish(cudaError_t error);
void clear_errors();

}  // namespace emulator
