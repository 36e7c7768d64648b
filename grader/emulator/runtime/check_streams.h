// The order of what is asked of the device: launches, copies and fills on streams, events, host code that waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "check_stamp.h"
#include "fault.h"
#include "memory.h"

namespace emulator::checker {

struct Context;

// Streams; known at all times, also while nobody watches.
void stream_made(const void* stream, bool blocking);
void stream_gone(const void* stream);

// Host code waits for a stream, an event, or the whole device; an event is recorded; a stream waits for one.
void wait_for_stream(const void* stream);
void wait_for_event(const void* event);
void wait_for_device();
void record_event(const void* event, const void* stream);
void make_stream_wait(const void* stream, const void* event);
void forget_event(const void* event);

// A kernel is launched on the stream; its accesses follow.
void order_launch(const void* stream, const Site& site);
// A copy or a fill of the stream touches a range of device memory.
void order_transfer(const void* stream, const Site& site, char* begin, size_t size, bool write);

// Whether some work asked for earlier is not made to happen before the running launch.
extern bool streams_are_unordered;
// The word was last touched by earlier work. Is that in order?
void check_streams(const Context& context, Stamp other, uint16_t other_site);
// The running launch touches this allocation for the first time.
void first_touch(Allocation& allocation);
// The range lies in memory that an unordered transfer touches.
void check_transfers(const Context& context);

// All that was asked for is done.
void forget_order();

}  // namespace emulator::checker
