// host_defines.h: part of what cuda_runtime.h declares.
#pragma once
#include "cuda_runtime.h"
