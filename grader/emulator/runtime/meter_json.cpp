// The counters as JSON text.
#include <cstdio>
#include <map>
#include <tuple>

#include "lines.h"
#include "meter_record.h"

namespace emulator::meter {
namespace {

using Places = std::map<const void*, SourceLine>;

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) < 0x20) {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", c);
            result += code;
        } else {
            result += c;
        }
    }
    return result + "\"";
}

// "key": value, ... with the punctuation where it belongs.
class Fields {
public:
    Fields& add(const char* key, const std::string& json) {
        text_ += text_.empty() ? "" : ", ";
        text_ += quoted(key) + ": " + json;
        return *this;
    }
    Fields& add(const char* key, uint64_t number) { return add(key, std::to_string(number)); }
    std::string object() const { return "{" + text_ + "}"; }

private:
    std::string text_;
};

template <class Container, class F>
std::string list(const Container& items, const char* separator, const F& json) {
    std::string text;
    for (const auto& item : items) text += (text.empty() ? "" : separator) + json(item);
    return "[" + text + "]";
}

std::string triple(const dim3& d) {
    return "[" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + "]";
}

std::string counters_json(const Counters& counters) {
    Fields fields;
#define COUNTER(name) fields.add(#name, counters.name);
    EMULATOR_COUNTERS(COUNTER)
#undef COUNTER
    return fields.object();
}

const char* kind_of(const LineCounts& line) {
    switch (line.what) {
        case What::load: return line.shared ? "shared_load" : "load";
        case What::store: return line.shared ? "shared_store" : "store";
        default: return line.shared ? "shared_atomic" : "atomic";
    }
}

// Instructions of one line of the source that do the same to the same buffer are one.
using Key = std::tuple<std::string, int, std::string, std::string>;  // file, line, kind, buffer
using Merged = std::map<Key, LineCounts>;

Merged merged(const std::vector<LineCounts>& lines, const Places& places) {
    Merged result;
    for (const LineCounts& line : lines) {
        const SourceLine& place = places.at(line.instruction);
        auto [at, fresh] = result.try_emplace({place.file, place.line, kind_of(line), line.buffer}, line);
        if (fresh) continue;
        LineCounts& sum = at->second;
        sum.requests += line.requests;
        sum.sectors += line.sectors;
        sum.ideal_sectors += line.ideal_sectors;
        sum.waves += line.waves;
        sum.ideal_waves += line.ideal_waves;
    }
    return result;
}

std::string line_json(const Merged::value_type& entry) {
    const auto& [file, number, kind, buffer] = entry.first;
    const LineCounts& line = entry.second;
    return Fields()
        .add("file", quoted(file))
        .add("line", static_cast<uint64_t>(number))
        .add("buffer", quoted(buffer))
        .add("kind", quoted(kind))
        .add("requests", line.requests)
        .add("sectors", line.sectors)
        .add("ideal_sectors", line.ideal_sectors)
        .add("waves", line.waves)
        .add("ideal_waves", line.ideal_waves)
        .object();
}

std::string buffer_json(const BufferCounts& buffer) {
    char share[16];
    std::snprintf(share, sizeof share, "%.3f", buffer.in_l2);
    return Fields()
        .add("name", quoted(buffer.name))
        .add("bytes", buffer.bytes)
        .add("read_sectors", buffer.read_sectors)
        .add("written_sectors", buffer.written_sectors)
        .add("in_l2", share)
        .object();
}

std::string launch_json(const Record& record, const Places& places) {
    const char* file = record.site.file == nullptr ? "" : record.site.file;
    return Fields()
        .add("kernel", quoted(record.kernel))
        .add("file", quoted(file))
        .add("line", static_cast<uint64_t>(record.site.line))
        .add("grid", triple(record.grid))
        .add("block", triple(record.threads))
        .add("shared_static", record.static_shared)
        .add("shared_dynamic", record.dynamic_shared)
        .add("sampled_blocks", record.sampled_blocks)
        .add("truncated", record.truncated ? "true" : "false")
        .add("blocks_per_sm", uint64_t{record.blocks_per_sm})
        .add("counters", counters_json(record.counters))
        .add("buffers", list(record.buffers, ", ", buffer_json))
        .add("lines", list(merged(record.lines, places), ",\n  ", line_json))
        .object();
}

}  // namespace

std::string to_json(const Records& records) {
    std::vector<const void*> instructions;
    for (const Record& record : records.launches) {
        for (const LineCounts& line : record.lines) instructions.push_back(line.instruction);
    }
    const Places places = lines_of(instructions);
    const auto launch = [&](const Record& record) { return launch_json(record, places); };
    const auto call = [](const MemoryCall& made) {
        return Fields().add("call", quoted(made.name)).add("bytes", made.bytes).object();
    };
    return Fields()
        .add("launches", list(records.launches, ",\n ", launch))
        .add("api", list(records.calls, ", ", call))
        .object();
}

}  // namespace emulator::meter
