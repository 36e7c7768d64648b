// Puts together the requests of a warp. Lanes run one after another here: the k-th execution of an
// instruction by each lane, counted from the last point where the whole warp was together, is one request.
#pragma once

#include <cstdint>
#include <vector>

#include "meter_request.h"

namespace emulator::meter {

class Pending {
public:
    void add(uint32_t instruction, unsigned lane, char* address, uint8_t size, Scattered& scattered) {
        if (instruction >= series_.size()) series_.resize(instruction + 1);
        Series& series = series_[instruction];
        const uint32_t k = series.executed[lane]++;
        if (k < series.requests.size()) {
            join(requests_[series.requests[k]], lane, address, size, scattered);
            return;
        }
        if (series.requests.empty()) used_.push_back(instruction);
        series.requests.push_back(static_cast<uint32_t>(requests_.size()));
        requests_.push_back({address, 0, uint32_t{1} << lane, instruction, static_cast<uint8_t>(lane), size, true});
    }

    // In the order in which they were begun.
    const std::vector<Request>& requests() const { return requests_; }
    void clear();

private:
    // The executions of one instruction.
    struct Series {
        uint32_t executed[32] = {};      // by each lane
        std::vector<uint32_t> requests;  // the k-th execution's
    };

    static void join(Request& request, unsigned lane, char* address, uint8_t size, Scattered& scattered);

    std::vector<Series> series_;  // by instruction
    std::vector<uint32_t> used_;  // instructions with requests
    std::vector<Request> requests_;
};

}  // namespace emulator::meter
