"""C++ that exposes a submission to Python, and the CMake project that builds one."""
