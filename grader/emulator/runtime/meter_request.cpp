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

    // Those that lanes `begin` to `end` - 1 want.
    Words(const Addresses& addresses, int begin, int end) {
        for (int i = 0; i < addresses.count; ++i) {
            if (addresses.lane[i] < begin || addresses.lane[i] >= end) continue;
            const uint64_t first = number(addresses.of[i]);
            const uint64_t last = first + static_cast<uint64_t>(addresses.size) - 1;
            for (uint64_t word = first / 4; word <= last / 4; ++word) at[count++] = word;
        }
        std::sort(at, at + count);
        count = static_cast<int>(std::unique(at, at + count) - at);
    }

    void add_to(Waves& waves) const {
        unsigned banks[32] = {};
        for (int i = 0; i < count; ++i) ++banks[at[i] % 32];
        waves.taken += *std::max_element(banks, banks + 32);
        waves.ideal += (static_cast<unsigned>(count) + 31) / 32;
    }
};

}  // namespace

Addresses::Addresses(const Request& request, const Scattered& scattered) : count(0), size(request.size) {
    for (uint32_t rest = request.lanes; rest != 0; rest &= rest - 1) {
        const int at = __builtin_ctz(rest);
        lane[count] = static_cast<uint8_t>(at);
        of[count++] = request.regular ? request.address + ptrdiff_t{request.stride} * (at - request.first)
                                      : scattered[static_cast<uint32_t>(request.stride) + static_cast<size_t>(at)];
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

unsigned atomic_waves(const Addresses& addresses) {
    unsigned banks[32] = {};
    for (int i = 0; i < addresses.count; ++i) ++banks[number(addresses.of[i]) / 4 % 32];
    return *std::max_element(banks, banks + 32);
}

// 32 banks give 128 bytes a wave: a warp goes in halves if its lanes want 8 bytes, in quarters if they want
// 16. The quarters of a half go together if half a wave holds what they want (so on an H200).
Waves shared_waves(const Addresses& addresses) {
    Waves waves{0, 0};
    const int together = addresses.size <= 4 ? 32 : 16;
    for (int begin = 0; begin < 32; begin += together) {
        const Words words(addresses, begin, begin + together);
        if (words.count == 0) continue;
        if (addresses.size <= 8 || words.count <= 16) {
            words.add_to(waves);
        } else {
            Words(addresses, begin, begin + 8).add_to(waves);
            Words(addresses, begin + 8, begin + 16).add_to(waves);
        }
    }
    return waves;
}

}  // namespace emulator::meter
