#include "meter_pending.h"

#include <algorithm>
#include <cstddef>

namespace emulator::meter {
namespace {

// From here on each lane's address is kept.
void scatter(Request& request, Scattered& scattered) {
    const size_t begin = scattered.size();
    scattered.resize(begin + 32);
    for (uint32_t rest = request.lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        scattered[begin + static_cast<size_t>(lane)] = request.address + ptrdiff_t{request.stride} * (lane - request.first);
    }
    request.stride = static_cast<int32_t>(begin);
    request.regular = false;
}

// Whether the second lane of a request sets a stride.
bool set_stride(Request& request, int lanes_apart, ptrdiff_t distance) {
    const ptrdiff_t stride = distance / lanes_apart;
    if (stride * lanes_apart != distance || stride != static_cast<int32_t>(stride)) return false;
    request.stride = static_cast<int32_t>(stride);
    return true;
}

}  // namespace

void Pending::join(Request& request, unsigned lane, char* address, uint8_t size, Scattered& scattered) {
    const int lanes_apart = static_cast<int>(lane) - request.first;
    request.size = std::max(request.size, size);
    if (request.regular) {
        const ptrdiff_t distance = address - request.address;
        const bool second = (request.lanes & (request.lanes - 1)) == 0;
        if (second ? !set_stride(request, lanes_apart, distance) : ptrdiff_t{request.stride} * lanes_apart != distance) {
            scatter(request, scattered);
        }
    }
    if (!request.regular) scattered[static_cast<uint32_t>(request.stride) + static_cast<size_t>(lane)] = address;
    request.lanes |= uint32_t{1} << lane;
}

void Pending::clear() {
    for (const uint32_t instruction : used_) {
        Series& series = series_[instruction];
        std::fill(std::begin(series.executed), std::end(series.executed), 0u);
        series.requests.clear();
    }
    used_.clear();
    requests_.clear();
}

}  // namespace emulator::meter
