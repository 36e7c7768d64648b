// CUB helpers that kernels may name.
#pragma once
#include "thread/thread_operators.cuh"
