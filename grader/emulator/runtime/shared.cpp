#include "shared.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "../include/emulator/shared.h"
#include "check_shadow.h"
#include "watch.h"

#undef __shared__

namespace {

// At one address for the life of the process: `extern __shared__` arrays are references to it.
char* reserve_dynamic() {
    void* memory = mmap(nullptr, size_t{1} << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return static_cast<char*>(memory);
}

}  // namespace

unsigned __emulator_block_serial = 0;

// A function, because arrays at namespace scope ask for it before main.
extern "C" char* __emulator_dynamic_shared(void) {
    static char* const memory = reserve_dynamic();
    return memory;
}

namespace emulator {
namespace {

using Variable = DeviceVariable;
using Variables = std::map<const char*, Variable>;  // by begin

// Functions, because variables register themselves before main in any order.
Variables& device_variables() {
    static Variables variables;
    return variables;
}
Variables& global_shared() {  // __shared__ at namespace scope
    static Variables variables;
    return variables;
}
Variables& known_shared() {
    static Variables variables;
    return variables;
}

size_t dynamic_size = 0;
size_t dynamic_accessible = 0;
size_t static_size = 0;  // met by the running block

const Variable* holder(const Variables& variables, const void* address) {
    const auto* at = static_cast<const char*>(address);
    auto it = variables.upper_bound(at);
    if (it == variables.begin()) return nullptr;
    const Variable& variable = std::prev(it)->second;
    return at < variable.begin + variable.size ? &variable : nullptr;
}

bool tell(const Variable* variable, char** begin, size_t* size, std::string* name) {
    if (variable == nullptr) return false;
    *begin = variable->begin;
    *size = variable->size;
    *name = variable->name;
    return true;
}

}  // namespace

void prepare_shared(size_t size) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t accessible = (size + page - 1) / page * page;
    if (accessible > dynamic_accessible) mprotect(__emulator_dynamic_shared(), accessible, PROT_READ | PROT_WRITE);
    if (accessible < dynamic_accessible) {
        mprotect(__emulator_dynamic_shared() + accessible, dynamic_accessible - accessible, PROT_NONE);
    }
    dynamic_size = size;
    dynamic_accessible = accessible;
}

void start_shared() {
    ++__emulator_block_serial;
    static_size = 0;
    std::memset(__emulator_dynamic_shared(), 0xff, dynamic_size);
    for (const auto& [begin, variable] : global_shared()) std::memset(variable.begin, 0xff, variable.size);
}

std::string describe_dynamic_shared(const void* address) {
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - __emulator_dynamic_shared());
    if (offset >= size_t{1} << 20) return "";
    if (dynamic_size == 0) {
        return "dynamic shared memory, of which the launch asks for none: give its size as the third argument of <<<...>>>";
    }
    return std::to_string(offset - dynamic_size) + " bytes past the end of dynamic shared memory (the launch asks for " +
           std::to_string(dynamic_size) + " bytes)";
}

bool is_shared(const void* address) {
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - __emulator_dynamic_shared());
    return offset < dynamic_size || holder(known_shared(), address) != nullptr;
}

bool find_shared(const void* address, char** begin, size_t* size, std::string* name) {
    const Variable dynamic{__emulator_dynamic_shared(), dynamic_size, "dynamic shared memory"};
    const auto offset = static_cast<size_t>(static_cast<const char*>(address) - dynamic.begin);
    return tell(offset < dynamic_size ? &dynamic : holder(known_shared(), address), begin, size, name);
}

size_t static_shared() { return static_size; }

void register_variable(const volatile void* address, size_t size, const char* name) {
    auto* begin = static_cast<char*>(const_cast<void*>(address));
    Variable& variable = device_variables()[begin];
    variable.begin = begin;
    variable.size = size;
    if (name[0] != '\0') variable.name = name;
}

bool is_variable(const void* address) { return holder(device_variables(), address) != nullptr; }

bool find_variable(const void* address, char** begin, size_t* size, std::string* name) {
    return tell(holder(device_variables(), address), begin, size, name);
}

const DeviceVariable* variable_at(const void* address) {
    static const DeviceVariable* last = nullptr;  // found; a variable is never unregistered
    const auto* at = static_cast<const char*>(address);
    if (last != nullptr && static_cast<size_t>(at - last->begin) < last->size) return last;
    const DeviceVariable* found = holder(device_variables(), address);
    if (found != nullptr) last = found;
    return found;
}

std::string describe_variable(const void* address) {
    const DeviceVariable* variable = variable_at(address);
    return variable == nullptr || variable->name.empty() ? "a variable" : "`" + variable->name + "`";
}

void enter_global_shared() {
    for (const auto& [begin, variable] : global_shared()) {
        checker::enter_shared(variable.begin, variable.size, variable.room, variable.name.c_str());
    }
}

}  // namespace emulator

using namespace emulator;

extern "C" void __emulator_enter_shared(void* address, size_t size, size_t room, const char* name) {
    if (current == nullptr) return;
    auto* begin = static_cast<char*>(address);
    known_shared().try_emplace(begin, Variable{begin, size, name, room});
    std::memset(address, 0xff, size);
    if ((watchers & kChecks) != 0) checker::enter_shared(begin, size, room, name);
    static_size += size;
    if (static_size > kStaticSharedLimit) {
        fault(Kind::launch, Site{},
              "the __shared__ variables of " + block_name() + " take " + std::to_string(static_size) +
                  " bytes, more than the 49152 bytes that a block may have; `" + name + "` is one of them");
    }
}

extern "C" void __emulator_register_shared(void* address, size_t size, size_t room, const char* name) {
    auto* begin = static_cast<char*>(address);
    global_shared().try_emplace(begin, Variable{begin, size, name, room});
    known_shared().try_emplace(begin, Variable{begin, size, name, room});
}

extern "C" void __emulator_register_variable(const volatile void* address, size_t size, const char* name) {
    register_variable(address, size, name);
}
