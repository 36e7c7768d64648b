// What the checkers have found: each place in the source once, with a count.
#pragma once

#include <string>

#include "fault.h"

namespace emulator {

enum class Severity { error, warning, advice };

// Where something happened: the instruction behind an access of device code, or a line that is known already.
struct Place {
    const void* instruction = nullptr;
    Site site;
};

struct Finding {
    Severity severity;
    const char* kind;
    Place place;
    std::string buffer;  // the variable that it is about; findings on different ones are told apart
    std::string message;  // kOther in it stands for the line of `other`
    Place other;
};

constexpr char kOther = '\x01';

// Counts a repetition of the finding that is already there for this kind, place and buffer; false if it is new.
bool found_again(const char* kind, const Place& place, const void* buffer);
// Keeps a finding for which found_again() has just said no.
void add_finding(Finding finding);
// A warning about a failed call that nobody has asked about, if there is one.
void add_unchecked_error();

// A fault, where it is known as "softmax.cu:57"; nothing while the checks are off.
void add_fault(const char* kind, const std::string& place, const std::string& sentence, Severity severity);

}  // namespace emulator
