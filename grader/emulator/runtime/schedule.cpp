#include "schedule.h"

#include <algorithm>
#include <numeric>

namespace emulator {

Schedule schedule;

void Schedule::seed(uint64_t seed) {
    seed_ = seed;
    order_ = seed == 0 ? Order::ascending : seed == 1 ? Order::descending : Order::shuffled;
    stride_for_ = 0;
    restart();
}

void Schedule::arrange(std::vector<int>& order, int size) {
    order.resize(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    if (order_ == Order::descending) std::reverse(order.begin(), order.end());
    if (order_ == Order::shuffled) shuffle(order);
}

void Schedule::shuffle(std::vector<int>& order) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
}

uint64_t Schedule::block(uint64_t position, uint64_t count) {
    if (order_ == Order::ascending) return position;
    if (order_ == Order::descending) return count - 1 - position;
    if (stride_for_ != count || position == 0) {
        // i -> (stride * i + offset) mod count is a permutation that needs no table.
        stride_for_ = count;
        offset_ = random() % count;
        stride_ = count < 4 ? 1 : 1 + random() % (count < (1u << 31) ? count - 1 : (1u << 31));
        while (std::gcd(stride_, count) != 1) stride_ = stride_ % count + 1;
    }
    return static_cast<uint64_t>((static_cast<unsigned __int128>(stride_) * position + offset_) % count);
}

}  // namespace emulator
