#include "meter_cache.h"

#include <algorithm>

namespace emulator::meter {

Cache::Cache(size_t lines, Replacement replacement)
    : capacity_(std::max<size_t>(1, lines)), replacement_(replacement), shift_(63) {
    size_t buckets = 2;
    for (; buckets < capacity_; buckets *= 2) --shift_;
    buckets_.assign(buckets, kNone);
}

CacheLine* Cache::find(uint64_t number) {
    for (uint32_t index = bucket(number); index != kNone; index = lines_[index].next) {
        if (lines_[index].number != number) continue;
        if (index != newest_) {
            unlink(index);
            use(index);
        }
        return &lines_[index];
    }
    return nullptr;
}

CacheLine* Cache::insert(uint64_t number, CacheLine* evicted, bool* evicts) {
    uint32_t index = static_cast<uint32_t>(lines_.size());
    *evicts = lines_.size() == capacity_;
    if (*evicts) {
        index = victim();
        *evicted = lines_[index];
        unlink(index);
        forget(index);
    } else {
        lines_.emplace_back();
    }
    uint32_t& head = bucket(number);
    lines_[index] = {number, head, kNone, kNone, 1, 0, 0};
    head = index;
    use(index);
    return &lines_[index];
}

uint32_t Cache::victim() {
    if (replacement_ == Replacement::oldest) return oldest_;
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return (random_ & 1) != 0 ? oldest_ : static_cast<uint32_t>((random_ >> 20) % capacity_);
}

void Cache::unlink(uint32_t index) {
    const CacheLine& line = lines_[index];
    (line.older == kNone ? oldest_ : lines_[line.older].newer) = line.newer;
    (line.newer == kNone ? newest_ : lines_[line.newer].older) = line.older;
}

void Cache::use(uint32_t index) {
    CacheLine& line = lines_[index];
    line.older = newest_;
    line.newer = kNone;
    (newest_ == kNone ? oldest_ : lines_[newest_].newer) = index;
    newest_ = index;
}

void Cache::forget(uint32_t index) {
    uint32_t* link = &bucket(lines_[index].number);
    while (*link != index) link = &lines_[*link].next;
    *link = lines_[index].next;
}

}  // namespace emulator::meter
