// What earlier launches have left in L2 for later ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "meter_buffers.h"
#include "meter_record.h"

namespace emulator::meter {

class Residency {
public:
    // Adds to `record` what memory has to do, given what each buffer of the launch has been asked for.
    void end_of_launch(Buffers& buffers, Record& record);
    // A copy or a fill that the host asks for; a null pointer is memory of the host.
    void copied(const void* to, const void* from, size_t bytes);
    void clear() { touched_.clear(); }

private:
    struct Touch {
        uint64_t launch;
        uint64_t bytes;
    };

    double share(const char* begin) const;
    void touch(const char* begin, uint64_t bytes);

    uint64_t launch_ = 0;
    std::map<const char*, Touch> touched_;  // by the start of the buffer: when it was touched last
};

}  // namespace emulator::meter
