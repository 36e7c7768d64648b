// The error state of the runtime API.
#pragma once

#include "../include/emulator/errors.h"
#include "fault.h"

namespace emulator {

// An error that stays until the process ends, as after a fault on a real device.
void set_sticky_error(cudaError_t error);
cudaError_t sticky_error();
// Makes `error` the last error and returns it; the sticky error, if there is one, takes precedence.
cudaError_t finish(cudaError_t error);
// The same for a call whose place is known and whose error is told nowhere else.
cudaError_t finish(cudaError_t error, const Site& site);
// An error that a call returned and that nobody has asked for since; none if there is a sticky one.
struct Forgotten {
    cudaError_t error;
    Site site;
};
Forgotten forgotten_error();
void clear_errors();

}  // namespace emulator
