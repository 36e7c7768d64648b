#include "signals.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fault.h"
#include "launch.h"
#include "lines.h"
#include "memory.h"
#include "scheduler.h"

namespace emulator {
namespace {

struct Received {
    volatile sig_atomic_t number = 0;
    int code = 0;
    const void* address = nullptr;
    const void* instruction = nullptr;
};
Received received;

const int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
struct sigaction previous[NSIG];

const void* instruction_of(const ucontext_t& machine) {
#if defined(__x86_64__) && defined(__linux__)
    return reinterpret_cast<const void*>(machine.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__) && defined(__linux__)
    return reinterpret_cast<const void*>(machine.uc_mcontext.pc);
#else
    (void)machine;
    return nullptr;
#endif
}

// The process is about to die of it, as a real one would: the last words say why.
void tell_host_access(const void* context, const void* address) {
    const std::string place = line_of(instruction_of(*static_cast<const ucontext_t*>(context)));
    std::fflush(stdout);
    std::fprintf(stderr, "%s: host code touches device memory, %s: only kernels and cudaMemcpy may\n",
                 place.empty() ? "?" : place.c_str(), describe_address(address).c_str());
}

// Makes the return from the handler continue the hub, as a jump_context there would.
const void* continue_hub(void* context) {
    auto* machine = static_cast<ucontext_t*>(context);
    auto** stack = static_cast<void**>(block.hub);
#if defined(__x86_64__) && defined(__linux__)
    auto& registers = machine->uc_mcontext.gregs;
    const auto* at = reinterpret_cast<const void*>(registers[REG_RIP]);
    registers[REG_RIP] = reinterpret_cast<greg_t>(stack[0]);
    registers[REG_RSP] = reinterpret_cast<greg_t>(stack + 1);
#elif defined(__aarch64__) && defined(__linux__)
    const auto* at = reinterpret_cast<const void*>(machine->uc_mcontext.pc);
    machine->uc_mcontext.pc = reinterpret_cast<uint64_t>(stack[0]);
    machine->uc_mcontext.regs[29] = reinterpret_cast<uint64_t>(stack[1]);
    machine->uc_mcontext.sp = reinterpret_cast<uint64_t>(stack + 2);
#elif defined(__x86_64__) && defined(__APPLE__)
    auto& registers = machine->uc_mcontext->__ss;
    const auto* at = reinterpret_cast<const void*>(registers.__rip);
    registers.__rip = reinterpret_cast<uint64_t>(stack[0]);
    registers.__rsp = reinterpret_cast<uint64_t>(stack + 1);
#elif defined(__aarch64__) && defined(__APPLE__)
    auto& registers = machine->uc_mcontext->__ss;
    const auto* at = reinterpret_cast<const void*>(registers.__pc);
    registers.__pc = reinterpret_cast<uint64_t>(stack[0]);
    registers.__fp = reinterpret_cast<uint64_t>(stack[1]);
    registers.__sp = reinterpret_cast<uint64_t>(stack + 2);
#endif
    return at;
}

void on_signal(int number, siginfo_t* info, void* context) {
    if (!runs_kernel()) {  // not ours: as if this handler had never been installed
        if (heap.contains(info->si_addr)) tell_host_access(context, info->si_addr);
        sigaction(number, &previous[number], nullptr);
        return;  // the instruction faults again
    }
    received.number = number;
    received.code = info->si_code;
    received.address = info->si_addr;
    received.instruction = continue_hub(context);
}

// movaps and its kin, which fault on addresses that are not a multiple of 16 without telling them.
bool is_aligned_move(const void* instruction) {
#if defined(__x86_64__)
    const auto* byte = static_cast<const uint8_t*>(instruction);
    while (*byte == 0x66 || *byte == 0xf2 || *byte == 0xf3 || (*byte & 0xf0) == 0x40) ++byte;
    if (byte[0] != 0x0f) return false;
    const uint8_t code = byte[1];
    return code == 0x28 || code == 0x29 || code == 0x2b || code == 0x6f || code == 0x7f || code == 0xe7 ||
           (code >= 0x51 && code <= 0x5f);
#else
    (void)instruction;
    return false;
#endif
}

}  // namespace

void catch_signals() {
    // Its own stack: a fiber that has run out of stack cannot run a handler on it.
    static thread_local bool has_stack = false;
    if (!has_stack) {
        has_stack = true;
        stack_t existing{};
        if (sigaltstack(nullptr, &existing) == 0 && (existing.ss_flags & SS_DISABLE) != 0) {
            constexpr size_t kSize = 64 << 10;
            stack_t stack{};
            stack.ss_sp = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            stack.ss_size = kSize;
            if (stack.ss_sp != MAP_FAILED) sigaltstack(&stack, nullptr);
        }
    }
    for (const int number : kSignals) {
        struct sigaction now {};
        sigaction(number, nullptr, &now);
        if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_signal) continue;
        struct sigaction ours {};
        ours.sa_sigaction = on_signal;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&ours.sa_mask);
        previous[number] = now;
        sigaction(number, &ours, nullptr);
    }
}

bool signal_received() { return __builtin_expect(received.number != 0, 0); }

void report_signal() {
    const int number = received.number;
    received.number = 0;
    const std::string who = thread_name(*current);
    const std::string place = line_of(received.instruction);
    if (number == SIGFPE) {
        record(Kind::trap, place, "integer division by zero (" + who + ")");
    } else if (number == SIGILL || number == SIGTRAP) {
        record(Kind::trap, place, "trap: " + who + " reached code that must not be reached");
    } else if (stacks.overflowed(received.address)) {
        record(Kind::stack_overflow, place,
               "stack overflow: " + who + " needs more than " + std::to_string(Stacks::kSize >> 10) +
                   " KB of stack, by a recursion without end or a large local array");
    } else if (number == SIGSEGV && received.address == nullptr && is_aligned_move(received.instruction)) {
        record(Kind::misaligned, place,
               "misaligned address: " + who + " accesses a 16-byte vector (float4, say) at an address that is not a"
               " multiple of 16, or an address that was never set");
    } else {
        record(Kind::illegal_address, place,
               "illegal memory access: the address is " + describe_address(received.address) + " (" + who + ")");
    }
}

}  // namespace emulator
