#include "meter_residency.h"

#include <algorithm>
#include <cmath>

#include "machine.h"
#include "memory.h"

namespace emulator::meter {

// The share of a buffer that is still in L2: all of it if everything touched since the launch that
// touched it began fits. If not, little is left, for what is evicted first is what the next launch, which
// starts at the same end, asks for first: on an H200 nothing was at 1.28 times L2.
double Residency::share(const char* begin) const {
    const auto found = touched_.find(begin);
    if (found == touched_.end()) return 0;
    uint64_t bytes = 0;
    for (const auto& [other, touch] : touched_) {
        if (touch.launch >= found->second.launch) bytes += touch.bytes;
    }
    constexpr double kNothingLeft = 1.25;
    const double filled = static_cast<double>(bytes) / static_cast<double>(machine.l2_bytes);
    return std::clamp((kNothingLeft - filled) / (kNothingLeft - 1), 0.0, 1.0);
}

void Residency::touch(const char* begin, uint64_t bytes) { touched_[begin] = {launch_, bytes}; }

void Residency::end_of_launch(Buffers& buffers, Record& record) {
    Counters& sum = record.counters;
    for (Buffer& buffer : buffers.all()) {
        if (buffer.space != Space::global) continue;
        const uint64_t read = std::min(buffer.read_sectors, buffer.sectors());
        const uint64_t written = std::min(buffer.written_sectors, buffer.sectors());
        const double in_l2 = share(buffer.begin);
        const auto hits = static_cast<uint64_t>(std::llround(in_l2 * static_cast<double>(read)));
        sum.unique_read_sectors += read;
        sum.unique_written_sectors += written;
        sum.dram_read_sectors += read - hits;
        sum.dirty_sectors_left += std::min(buffer.dirty_sectors, written);
        record.buffers.push_back({buffer.begin, buffer.name, buffer.size, read, written, in_l2});
    }
    std::sort(record.buffers.begin(), record.buffers.end(),
              [](const BufferCounts& a, const BufferCounts& b) { return a.begin < b.begin; });
    // More than L2 holds cannot be left: where only some turns of the blocks were run, the others push it out.
    const uint64_t room = machine.l2_bytes / 32;
    if (sum.dirty_sectors_left > room) {
        sum.dram_write_sectors += sum.dirty_sectors_left - room;
        sum.dirty_sectors_left = room;
    }
    // L2 answers what does not come from memory.
    const uint64_t asked = sum.l2_read_sectors + sum.l2_atomic_sectors;
    sum.l2_hit_sectors = asked - std::min(asked, sum.dram_read_sectors);
    for (const Buffer& buffer : buffers.all()) {
        if (buffer.space != Space::global) continue;
        touch(buffer.begin, 32 * std::min(buffer.read_sectors + buffer.written_sectors, buffer.sectors()));
    }
    ++launch_;
}

void Residency::copied(const void* to, const void* from, size_t bytes) {
    for (const void* pointer : {to, from}) {
        if (const Allocation* allocation = heap.find(pointer)) touch(allocation->shown_begin, bytes);
    }
    ++launch_;
}

}  // namespace emulator::meter
