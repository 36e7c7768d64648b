// The order in which blocks, warps and lanes take turns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

class Schedule {
public:
    void seed(uint64_t seed);
    // Every launch starts from the seed again: what came before has no influence.
    void restart() { state_ = seed_ * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du; }

    // The lane after which the first one is taken.
    uint8_t before_first() const { return order_ == Order::descending ? 0 : 31; }
    // The set bit of `ready` that comes after `lane`; `ready` is not empty.
    unsigned next_lane(uint32_t ready, unsigned lane) {
        if (order_ == Order::ascending) {
            const uint32_t above = lane == 31 ? 0 : ready & (~uint32_t{0} << (lane + 1));
            return static_cast<unsigned>(__builtin_ctz(above ? above : ready));
        }
        if (order_ == Order::descending) {
            const uint32_t below = ready & ((uint32_t{1} << lane) - 1);
            return 31u - static_cast<unsigned>(__builtin_clz(below ? below : ready));
        }
        const unsigned turn = static_cast<unsigned>(random() >> 59);
        const uint32_t turned = ready >> turn | ready << ((32 - turn) & 31);
        return (static_cast<unsigned>(__builtin_ctz(turned)) + turn) & 31;
    }

    // Puts 0 ... size-1 in the order of this schedule.
    void arrange(std::vector<int>& order, int size);
    // As above, for the warps after a barrier; only shuffles differ from one time to the next.
    void rearrange(std::vector<int>& order) {
        if (order_ == Order::shuffled) shuffle(order);
    }
    // Block `position` of `count` to run.
    uint64_t block(uint64_t position, uint64_t count);

private:
    enum class Order { ascending, descending, shuffled };

    uint64_t random() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_ * 0x2545f4914f6cdd1du;
    }
    void shuffle(std::vector<int>& order);

    Order order_ = Order::ascending;
    uint64_t seed_ = 0;
    uint64_t state_ = 0x2545f4914f6cdd1du;
    uint64_t stride_ = 1;
    uint64_t offset_ = 0;
    uint64_t stride_for_ = 0;
};

extern Schedule schedule;

}  // namespace emulator
