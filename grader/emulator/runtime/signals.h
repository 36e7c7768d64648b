// Faults that the processor notices: addresses that cannot be touched, division by zero, traps.
#pragma once

namespace emulator {

// From now on such a fault in device code ends the kernel instead of the process.
void catch_signals();

// Whether the thread that ran last was ended by a signal, and the report of it.
bool signal_received();
void report_signal();

}  // namespace emulator
