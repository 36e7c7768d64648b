// What went wrong, told once, as one sentence with file and line.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "block.h"

namespace emulator {

enum class Kind {
    deadlock,
    divergent_barrier,
    shuffle,
    endless_loop,
    illegal_address,
    misaligned,
    stack_overflow,
    assertion,
    launch,
    trap,
    api,
    unsupported
};

// A place in the student's source; the line is 0 where it is not known.
struct Site {
    const char* file = nullptr;
    int line = 0;

    std::string text() const;
    bool operator<(const Site& other) const { return std::tie(line, file) < std::tie(other.line, other.file); }
};

// Keeps the sentence as the sticky fault of the process (the first one wins) and gives the kernel up.
void record(Kind kind, const std::string& place, const std::string& sentence);
void record(Kind kind, const Site& site, const std::string& sentence);
// The same, from the thread that did it: never returns to it.
[[noreturn]] void fault(Kind kind, const Site& site, const std::string& sentence);
// Ends the running thread after `record`.
[[noreturn]] void leave();
// An error that the CUDA API returns and forgets; kept so that it is seen even if nobody asks.
void record_error(Kind kind, const Site& site, const std::string& sentence);
// Something doubtful; only the first is kept.
void note(const Site& site, const std::string& sentence);
// Device code was called on the host.
void host_called(const char* function, int line, const char* file);

// Names for messages.
std::string thread_name(const Thread& thread);  // thread (3,0,0) of block (0,0,0) of kernel k
std::string block_name();                       // block (0,0,0) of kernel k
std::string ranges(const char* noun, const std::vector<int>& numbers);  // threads 0-31, 64
std::string hexadecimal(uint64_t value);
int rank_of(const Thread* thread);

}  // namespace emulator
