#include "meter_request.h"

#include <algorithm>
#include <iterator>

namespace emulator::meter {
namespace {

uint64_t number(const char* address) { return reinterpret_cast<uintptr_t>(address); }

// Distinct 4-byte words of some addresses, ascending. Sixteen bytes that are not aligned make five.
struct Words {
    uint64_t at[160];
    int count = 0;

    Words(char* const* addresses, int lanes, int size) {
        for (int i = 0; i < lanes; ++i) {
            const uint64_t begin = number(addresses[i]);
            for (uint64_t word = begin / 4; word <= (begin + static_cast<uint64_t>(size) - 1) / 4; ++word) {
                at[count++] = word;
            }
        }
        std::sort(at, at + count);
        count = static_cast<int>(std::unique(at, at + count) - at);
    }
    bool contains(const Words& other) const { return std::includes(at, at + count, other.at, other.at + other.count); }
};

}  // namespace

Addresses::Addresses(const Request& request, const Scattered& scattered) : count(0), size(request.size) {
    for (uint32_t rest = request.lanes; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        of[count++] = request.regular ? request.address + ptrdiff_t{request.stride} * (lane - request.first)
                                      : scattered[static_cast<uint32_t>(request.stride) + static_cast<size_t>(lane)];
    }
}

Lines::Lines(const Addresses& addresses) {
    uint64_t sectors[64];
    int found = 0;
    bool sorted = true;
    const auto note = [&](uint64_t sector) {
        if (found != 0 && sectors[found - 1] == sector) return;
        sorted = sorted && (found == 0 || sectors[found - 1] < sector);
        sectors[found++] = sector;
    };
    for (int i = 0; i < addresses.count; ++i) {
        const uint64_t begin = number(addresses.of[i]);
        const uint64_t last = (begin + static_cast<uint64_t>(addresses.size) - 1) / 32;
        note(begin / 32);
        if (last != begin / 32) note(last);
    }
    if (!sorted) std::sort(sectors, sectors + found);
    for (int i = 0; i < found; ++i) {
        if (count == 0 || at[count - 1].number != sectors[i] / 4) at[count++] = {sectors[i] / 4, 0};
        at[count - 1].sectors |= 1u << sectors[i] % 4;
    }
}

unsigned Lines::sectors() const {
    unsigned sum = 0;
    for (int i = 0; i < count; ++i) sum += static_cast<unsigned>(__builtin_popcount(at[i].sectors));
    return sum;
}

unsigned ideal_sectors(const Addresses& addresses) {
    char* begins[32];
    std::copy_n(addresses.of, addresses.count, begins);
    std::sort(begins, begins + addresses.count);
    unsigned bytes = 0;
    const char* covered = begins[0];
    for (int i = 0; i < addresses.count; ++i) {
        const char* end = begins[i] + addresses.size;
        bytes += static_cast<unsigned>(end - std::max<const char*>(begins[i], covered));
        covered = end;
    }
    return (bytes + 31) / 32;
}

unsigned same_address(const Addresses& addresses) {
    char* sorted[32];
    std::copy_n(addresses.of, addresses.count, sorted);
    std::sort(sorted, sorted + addresses.count);
    unsigned most = 0;
    unsigned run = 0;
    for (int i = 0; i < addresses.count; ++i) {
        run = i > 0 && sorted[i] == sorted[i - 1] ? run + 1 : 1;
        most = std::max(most, run);
    }
    return most;
}

unsigned shared_waves(const Addresses& addresses, bool atomic) {
    if (atomic) {
        unsigned banks[32] = {};
        for (int i = 0; i < addresses.count; ++i) ++banks[number(addresses.of[i]) / 4 % 32];
        return *std::max_element(banks, banks + 32);
    }
    // 32 banks give 128 bytes a wave: wide accesses go in halves or quarters of the warp.
    const int lanes = 32 / std::max(1, addresses.size / 4);
    unsigned waves = 0;
    Words before(nullptr, 0, 0);
    for (int begin = 0; begin < addresses.count; begin += lanes) {
        const Words words(addresses.of + begin, std::min(lanes, addresses.count - begin), addresses.size);
        if (before.contains(words)) continue;  // what the last wave had is handed to these lanes, too
        unsigned banks[32] = {};
        for (int i = 0; i < words.count; ++i) ++banks[words.at[i] % 32];
        waves += *std::max_element(banks, banks + 32);
        before = words;
    }
    return waves;
}

unsigned ideal_waves(const Addresses& addresses) {
    const Words words(addresses.of, addresses.count, addresses.size);
    return (static_cast<unsigned>(words.count) + 31) / 32;
}

}  // namespace emulator::meter
