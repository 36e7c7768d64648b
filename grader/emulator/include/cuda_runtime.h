// Everything that nvcc makes known before the first line of a .cu file, for an ordinary C++17 compiler.
//
// These headers are read together with a student's own code, macros and -D options included. Hence
// the spelling of the C++ library: every name of ours that CUDA does not define is reserved
// (__name, _Type), so that nothing a student may write can clash with it.
#pragma once

#include "emulator/keywords.h"
#include "emulator/copies.h"

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cstdio>  // it undefines printf, so it must come first
#include <new>
#include <type_traits>
#include <utility>

#include "emulator/vector_types.h"

#include "emulator/errors.h"
#include "emulator/properties.h"
#include "emulator/runtime_api.h"

#include "emulator/builtins.h"
#include "emulator/launch.h"
#include "emulator/shared.h"
#include "emulator/steps.h"

#include "emulator/atomics.h"
#include "emulator/barrier.h"
#include "emulator/device_math.h"
#include "emulator/device_output.h"
#include "emulator/integers.h"
#include "emulator/loads.h"
#include "emulator/warp.h"

#include "emulator/runtime_templates.h"

// They would hide accesses from those who watch.
#pragma GCC poison no_sanitize __no_sanitize__ no_sanitize_thread __no_sanitize_thread__
#pragma GCC poison no_sanitize_address __no_sanitize_address__ disable_sanitizer_instrumentation
