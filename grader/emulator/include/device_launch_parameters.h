// device_launch_parameters.h: part of what cuda_runtime.h declares.
#pragma once
#include "cuda_runtime.h"
