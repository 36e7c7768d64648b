// printf, assert, traps and clocks on the device.
#pragma once

#include <assert.h>
#include <stdio.h>

#include "keywords.h"

extern "C" {
int __emulator_printf(const char* __format, ...) __attribute__((format(printf, 1, 2)));
void __emulator_assert(const char* __expression, const char* __file, int __line);
void __emulator_trap(const char* __what, int __line, const char* __file);
long long __emulator_clock(void);
}
namespace std {
using ::__emulator_printf;
}

// printf works on host and device; on the device its output is capped.
#define printf(...) __emulator_printf(__VA_ARGS__)

#define __trap() __emulator_trap("__trap()", __LINE__, __FILE__)
#define __brkpt() __emulator_trap("__brkpt()", __LINE__, __FILE__)

// Time as the emulator knows it: the steps taken so far.
static inline long long clock64() { return __emulator_clock(); }
static inline unsigned long long __globaltimer() { return static_cast<unsigned long long>(__emulator_clock()); }
static inline void __nanosleep(unsigned) {}
