"""CUDA on the CPU: front end, headers and runtime. See README.md."""
