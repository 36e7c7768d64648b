// printf, assert, traps and clocks of device code.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "../include/emulator/control.h"
#include "fault.h"
#include "stacks.h"

namespace emulator {
namespace {

constexpr long kOutputLimit = 1 << 20;
long printed = 0;

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" int __emulator_printf(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int result = 0;
    if (current == nullptr) {
        result = std::vprintf(format, arguments);
    } else if (printed < kOutputLimit) {
        result = std::vprintf(format, arguments);
        if (result > 0) printed += result;
        if (printed >= kOutputLimit) std::printf("\n... output of kernels capped\n");
    }
    va_end(arguments);
    return result;
}

extern "C" void __emulator_assert(const char* expression, const char* file, int line) {
    if (current == nullptr) {
        std::fflush(stdout);
        std::fprintf(stderr, "%s:%d: assertion `%s' failed.\n", file, line, expression);
        std::abort();
    }
    fault(Kind::assertion, Site{file, line}, std::string("assertion `") + expression + "` failed (" + thread_name(*current) + ")");
}

extern "C" void __emulator_trap(const char* what, int line, const char* file) {
    if (current == nullptr) {
        host_called(what, line, file);
        return;
    }
    fault(Kind::trap, Site{file, line}, std::string(what) + " reached by " + thread_name(*current));
}

extern "C" long long __emulator_clock(void) { return static_cast<long long>(emu_steps()); }
