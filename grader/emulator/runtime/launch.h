// Kernel launches.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

// The kernel that runs, for messages.
std::string kernel_name();
// Where it was launched.
std::string launch_site();
// Whether the calling thread of the operating system is the one that runs a kernel now.
bool runs_kernel();
// Host threads take turns: one that uses the device waits while another one does.
class Turn {
public:
    Turn();
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
};
// Shared memory that a launch may ask for; grows when a function is given a larger limit.
void allow_dynamic_shared(size_t bytes);

}  // namespace emulator
