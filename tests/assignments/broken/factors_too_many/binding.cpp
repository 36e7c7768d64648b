#include "binding.h"

#include "double.h"

PYBIND11_MODULE(submission, module) { BIND_LAUNCHER(module, launch_double); }
