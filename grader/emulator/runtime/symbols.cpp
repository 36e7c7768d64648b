#include "symbols.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

#ifdef __linux__
#include <elf.h>
#endif

namespace emulator {
namespace {

bool hidden = false;

struct Symbol {
    uintptr_t begin;  // as the file has it
    size_t size;
    std::string name;
};
using Symbols = std::vector<Symbol>;  // by address

// "count" of "count", "_ZL5count" (static) and "_ZN12_GLOBAL__N_15countE" (in an unnamed namespace).
std::string plain_name(const std::string& symbol) {
    std::string rest = symbol;
    const std::string unnamed = "_ZN12_GLOBAL__N_1";
    if (symbol.rfind("_ZL", 0) == 0) {
        rest = symbol.substr(3);
    } else if (symbol.rfind(unnamed, 0) == 0 && symbol.back() == 'E') {
        rest = symbol.substr(unnamed.size(), symbol.size() - unnamed.size() - 1);
    } else {
        const bool ours = symbol == "threadIdx" || symbol == "blockIdx" || symbol == "blockDim" || symbol == "gridDim";
        return ours || symbol[0] == '_' ? "" : symbol;
    }
    const size_t length = std::strtoul(rest.c_str(), nullptr, 10);
    rest.erase(0, rest.find_first_not_of("0123456789"));
    return rest.size() == length && rest[0] != '_' ? rest : "";
}

#ifdef __linux__
template <class T>
const T* at(const std::string& file, size_t offset, size_t count = 1) {
    return offset + count * sizeof(T) <= file.size() ? reinterpret_cast<const T*>(file.data() + offset) : nullptr;
}

// The variables in writable sections of a module's file.
Symbols read_symbols(const char* path) {
    Symbols symbols;
    std::ifstream stream(path, std::ios::binary);
    const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    const auto* header = at<Elf64_Ehdr>(file, 0);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return symbols;
    const auto* sections = at<Elf64_Shdr>(file, header->e_shoff, header->e_shnum);
    for (int i = 0; sections != nullptr && i < header->e_shnum; ++i) {
        const Elf64_Shdr& table = sections[i];
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
        const size_t count = table.sh_size / sizeof(Elf64_Sym);
        const auto* entries = at<Elf64_Sym>(file, table.sh_offset, count);
        for (size_t k = 0; entries != nullptr && k < count; ++k) {
            const Elf64_Sym& entry = entries[k];
            if (ELF64_ST_TYPE(entry.st_info) != STT_OBJECT || entry.st_shndx >= header->e_shnum) continue;
            const Elf64_Shdr& section = sections[entry.st_shndx];
            const char* name = at<char>(file, sections[table.sh_link].sh_offset + entry.st_name);
            if ((section.sh_flags & SHF_WRITE) == 0 || name == nullptr) continue;
            symbols.push_back({entry.st_value, entry.st_size, name});
        }
    }
    std::sort(symbols.begin(), symbols.end(), [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; });
    return symbols;
}

uintptr_t base_of(const Dl_info& module) {
    const bool fixed = static_cast<const Elf64_Ehdr*>(module.dli_fbase)->e_type == ET_EXEC;
    return fixed ? 0 : reinterpret_cast<uintptr_t>(module.dli_fbase);
}
#else
Symbols read_symbols(const char*) { return {}; }
uintptr_t base_of(const Dl_info& module) { return reinterpret_cast<uintptr_t>(module.dli_fbase); }
#endif

}  // namespace

// Variables of the runtime and of other libraries that student code is linked with.
static bool is_of_library(const std::string& symbol) {
    for (const char* part : {"8emulator", "8pybind11", "13kernel_grader"}) {
        if (symbol.find(part) != std::string::npos) return true;
    }
    for (const char* start : {"_ZSt", "_ZNSt", "_ZGVNSt", "_ZZNSt", "_ZN9__gnu_cxx"}) {
        if (symbol.rfind(start, 0) == 0) return true;
    }
    return symbol.rfind("_Z", 0) != 0 && symbol[0] == '_';
}

Owner owner_of(const void* address) {
    static auto& modules = *new std::map<std::string, Symbols>;
    Dl_info module{};
    if (dladdr(address, &module) == 0 || module.dli_fname == nullptr) return {Owner::unknown, ""};
    const auto [known, is_new] = modules.try_emplace(module.dli_fname);
    const Symbols& symbols = known->second;
    if (is_new) known->second = read_symbols(module.dli_fname);
    const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - base_of(module);
    auto after = std::upper_bound(symbols.begin(), symbols.end(), offset,
                                  [](uintptr_t value, const Symbol& symbol) { return value < symbol.begin; });
    if (symbols.empty() || after == symbols.begin()) return {Owner::unknown, ""};  // a constant, say
    const Symbol& symbol = *std::prev(after);
    if (offset >= symbol.begin + symbol.size) return {Owner::unknown, ""};
    if (is_of_library(symbol.name)) return {Owner::foreign, ""};
    const std::string name = plain_name(symbol.name);
    return name.empty() ? Owner{Owner::other, ""} : Owner{Owner::host, name};
}

bool hides_variables() { return hidden; }

}  // namespace emulator

extern "C" void __emulator_hides_variables(void) { emulator::hidden = true; }
