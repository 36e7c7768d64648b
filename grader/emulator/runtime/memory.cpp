#include "memory.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "early.h"
#include "shared.h"
#include "signals.h"

namespace emulator {

EMULATOR_EARLY DeviceHeap heap;

namespace {

constexpr size_t kAlignment = 256;

size_t page_size() {
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

bool DeviceHeap::reserve() {
    if (reserved_ != 0) return true;
    for (size_t size = size_t{256} << 30; size >= size_t{1} << 30; size /= 2) {
        void* memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) continue;
        base_ = static_cast<char*>(memory);
        reserved_ = size;
        next_ = page_size();
        catch_signals();  // to say so when host code touches what is reserved here
        return true;
    }
    return false;
}

// Addresses are not used twice as long as there are fresh ones: a pointer to freed memory stays invalid.
char* DeviceHeap::place(size_t bytes) {
    if (next_ + bytes + page_size() <= reserved_) {
        char* pages = base_ + next_;
        next_ += bytes + page_size();
        return pages;
    }
    char* candidate = base_ + page_size();
    for (auto it = allocations_.begin(); it != allocations_.end();) {
        const Allocation& allocation = it->second;
        if (allocation.freed) {
            it = allocations_.erase(it);
            continue;
        }
        char* pages = const_cast<char*>(allocation.begin) - (reinterpret_cast<uintptr_t>(allocation.begin) % page_size());
        if (candidate + bytes + page_size() <= pages) return candidate;
        candidate = pages + allocation.pages + page_size();
        ++it;
    }
    return candidate + bytes + page_size() <= base_ + reserved_ ? candidate : nullptr;
}

void* DeviceHeap::allocate(size_t size, const Site& site, bool managed, Content content) {
    const size_t padded = round_up(size == 0 ? 1 : size, kAlignment);
    if (padded < size || padded > capacity_ - used_ || !reserve()) return nullptr;
    const size_t bytes = round_up(padded, page_size());
    char* pages = place(bytes);
    if (pages == nullptr || mprotect(pages, bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
    if (content == Content::poison) std::memset(pages, 0xff, bytes);
    if (opened_ == 0 && !managed) mprotect(pages, bytes, PROT_NONE);
    // At the end of its pages, so that the first access past it meets the page that is not there.
    char* begin = pages + bytes - padded;
    allocations_[begin] = {begin, size, bytes, "", site, managed, false, begin, size, false, 0, call_};
    used_ += padded;
    ++changes_;
    return begin;
}

bool DeviceHeap::map(void* pointer, size_t size, int file, const uint64_t* offsets, size_t piece, bool shared) {
    const auto it = allocations_.find(static_cast<const char*>(pointer));
    if (it == allocations_.end() || it->second.freed || size > it->second.size) return false;
    if (piece == 0 || size % piece != 0 || piece % page_size() != 0) return false;
    if (reinterpret_cast<uintptr_t>(pointer) % page_size() != 0) return false;
    it->second.mapped = true;
    for (size_t i = 0; i < size / piece; ++i) {
        const int flags = MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE);
        const int protection = opened_ == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
        void* at = it->second.begin + i * piece;
        if (mmap(at, piece, protection, flags, file, static_cast<off_t>(offsets[i])) != at) return false;
    }
    return true;
}

bool DeviceHeap::release(void* pointer) {
    auto it = allocations_.find(static_cast<const char*>(pointer));
    if (it == allocations_.end() || it->second.freed) return false;
    Allocation& allocation = it->second;
    const size_t padded = round_up(allocation.size == 0 ? 1 : allocation.size, kAlignment);
    char* pages = allocation.begin + padded - allocation.pages;
    if (allocation.mapped) {  // else what comes here later would be written into the file
        constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        mmap(pages, allocation.pages, PROT_NONE, kFlags, -1, 0);
    }
    madvise(pages, allocation.pages, MADV_DONTNEED);
    mprotect(pages, allocation.pages, PROT_NONE);
    allocation.freed = true;
    ++changes_;
    used_ -= padded;
    return true;
}

void DeviceHeap::protect_all(int protection) {
    for (const auto& [begin, allocation] : allocations_) {
        if (allocation.freed || allocation.managed) continue;
        char* end = allocation.begin + round_up(allocation.size == 0 ? 1 : allocation.size, kAlignment);
        mprotect(end - allocation.pages, allocation.pages, protection);
    }
}

void DeviceHeap::open() {
    if (opened_++ == 0) protect_all(PROT_READ | PROT_WRITE);
}

void DeviceHeap::close() {
    if (--opened_ == 0) protect_all(PROT_NONE);
}

const Allocation* DeviceHeap::nearest(const void* address) const {
    auto it = allocations_.upper_bound(static_cast<const char*>(address));
    return it == allocations_.begin() ? nullptr : &std::prev(it)->second;
}

Allocation* DeviceHeap::find(const void* address) {
    if (!contains(address)) return nullptr;
    auto it = allocations_.upper_bound(static_cast<const char*>(address));
    if (it == allocations_.begin()) return nullptr;
    Allocation& allocation = std::prev(it)->second;
    const bool inside = static_cast<const char*>(address) < allocation.end() || address == allocation.begin;
    return inside && !allocation.freed ? &allocation : nullptr;
}

Allocation* DeviceHeap::around(const void* address) {
    if (!contains(address)) return nullptr;
    const auto* at = static_cast<const char*>(address);
    auto it = allocations_.upper_bound(at);
    if (it != allocations_.begin()) {
        Allocation& before = std::prev(it)->second;
        const size_t padded = round_up(before.size == 0 ? 1 : before.size, kAlignment);
        if (!before.freed && at < before.begin + padded) return &before;
    }
    if (it == allocations_.end() || it->second.freed) return nullptr;
    Allocation& after = it->second;
    return at >= after.begin - reinterpret_cast<uintptr_t>(after.begin) % page_size() ? &after : nullptr;
}

std::string describe_allocation(const Allocation& allocation) {
    std::string text = allocation.name.empty() ? "an allocation" : "`" + allocation.name + "`";
    text += " (" + std::to_string(allocation.shown_size) + " bytes";
    if (allocation.name.empty() && allocation.site.file != nullptr) text += " allocated at " + allocation.site.text();
    return text + ")";
}

std::string describe_address(const void* address) {
    const auto* at = static_cast<const char*>(address);
    if (reinterpret_cast<uintptr_t>(at) < 65536) {
        return reinterpret_cast<uintptr_t>(at) == 0 ? "a null pointer" : "a null pointer plus an offset";
    }
    if (!heap.contains(address)) {
        const std::string shared = describe_dynamic_shared(address);
        return shared.empty() ? "no device memory at all (" + hexadecimal(reinterpret_cast<uint64_t>(at)) + ")" : shared;
    }
    const Allocation* before = heap.nearest(address);
    if (before == nullptr) return "before the first allocation";
    if (at >= before->shown_begin && at < before->shown_end()) {
        return (before->freed ? "inside freed memory, " : "inside ") + describe_allocation(*before);
    }
    if (at < before->shown_begin) {
        return std::to_string(before->shown_begin - at) + " bytes before the start of " + describe_allocation(*before);
    }
    const Allocation* after = heap.nearest(reinterpret_cast<const void*>(~uintptr_t{0} >> 1));
    for (const Allocation* next = after; next != nullptr && next->begin > at; next = heap.nearest(next->begin - 1)) after = next;
    const auto past = static_cast<size_t>(at - before->shown_end());
    if (after != nullptr && after->begin > at && static_cast<size_t>(after->shown_begin - at) < past) {
        return std::to_string(after->shown_begin - at) + " bytes before the start of " + describe_allocation(*after);
    }
    return std::to_string(past) + " bytes past the end of " + describe_allocation(*before);
}

// Static data of a loaded module counts as device memory: it may be a variable that could not be registered.
static bool is_in_module(const void* pointer) {
    Dl_info module{};
    return dladdr(pointer, &module) != 0;
}

bool is_device_pointer(const void* pointer) {
    return pointer == nullptr || heap.contains(pointer) || is_variable(pointer) || is_pinned(pointer) || is_in_module(pointer);
}

}  // namespace emulator
