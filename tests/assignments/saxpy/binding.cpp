#include "binding.h"

#include "saxpy.h"

PYBIND11_MODULE(submission, module) { BIND_LAUNCHER(module, launch_saxpy); }
