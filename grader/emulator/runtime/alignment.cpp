// Misaligned accesses. Student code is compiled with -fsanitize=alignment; the compiler then calls the
// function below, by its documented name, when a pointer is not as aligned as its type asks for.
#include <cstdint>
#include <string>

#include "fault.h"
#include "memory.h"
#include "shared.h"

namespace {

struct SourceLocation {
    const char* file;
    uint32_t line;
    uint32_t column;
};
struct TypeDescriptor {
    uint16_t kind;
    uint16_t info;
    char name[1];
};
struct TypeMismatch {
    SourceLocation location;
    const TypeDescriptor* type;
    unsigned char log_alignment;
    unsigned char check;
};

}  // namespace

using namespace emulator;

extern "C" void __ubsan_handle_type_mismatch_v1(const TypeMismatch* mismatch, uintptr_t pointer) {
    // Host code may do this on a CPU, and a thread's own variables live in registers on a GPU.
    const auto* address = reinterpret_cast<const void*>(pointer);
    if (current == nullptr || !(heap.contains(address) || is_shared(address) || is_variable(address))) return;
    const auto alignment = uintptr_t{1} << mismatch->log_alignment;
    const Allocation* allocation = heap.find(address);
    std::string where = is_shared(address) ? "in shared memory" : "in device memory";
    if (allocation != nullptr) {
        where = "byte " + std::to_string(static_cast<const char*>(address) - allocation->begin) + " of " +
                (allocation->name.empty() ? "an allocation" : "`" + allocation->name + "`");
    }
    fault(Kind::misaligned, Site{mismatch->location.file, static_cast<int>(mismatch->location.line)},
          "misaligned address: an access to " + std::string(mismatch->type->name) + " needs a multiple of " +
              std::to_string(alignment) + ", and " + where + " is not one (" + thread_name(*current) + ")");
}
