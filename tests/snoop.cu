// A submission for saxpy that looks for everything that it should not know, in all that its process
// can reach, and prints what it found. Needles are kept masked, or it would find its own.
#include <cuda_runtime.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

extern char** environ;

constexpr unsigned char kMask = 0x5a;

struct Needle {
    std::string name;
    std::vector<unsigned char> masked;
};

static std::vector<Needle> needles;

static void look_for(const std::string& name, std::vector<unsigned char> masked) {
    needles.push_back({name, std::move(masked)});
}

// Bytes of the needle's words, one at a time, so that they are never together in memory unmasked.
template <class T>
static void look_for(const std::string& name, size_t count, const std::function<T(size_t)>& value) {
    std::vector<unsigned char> masked;
    for (size_t i = 0; i < count; ++i) {
        const T one = value(i);
        unsigned char bytes[sizeof(T)];
        memcpy(bytes, &one, sizeof one);
        for (unsigned char byte : bytes) masked.push_back(byte ^ kMask);
    }
    look_for(name, masked);
}

static void search(const char* where, const unsigned char* data, size_t size) {
    for (const Needle& needle : needles) {
        const std::vector<unsigned char>& masked = needle.masked;
        if (size < masked.size()) continue;
        const unsigned char* end = data + size - masked.size() + 1;
        for (const unsigned char* at = data; at < end; ++at) {
            at = static_cast<const unsigned char*>(memchr(at, masked[0] ^ kMask, end - at));
            if (at == nullptr) break;
            size_t same = 1;
            while (same < masked.size() && (at[same] ^ kMask) == masked[same]) ++same;
            if (same == masked.size()) {
                printf("found %s in %s\n", needle.name.c_str(), where);
                break;
            }
        }
    }
}

static void search_file(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return;
    std::vector<unsigned char> data(1 << 20);
    const ssize_t got = read(fd, data.data(), data.size());
    close(fd);
    if (got > 0) search(path.c_str(), data.data(), got);
}

static void search_folder(const std::string& path, int depth) {
    DIR* folder = opendir(path.c_str());
    if (folder == nullptr) return;
    while (const dirent* entry = readdir(folder)) {
        const std::string name = entry->d_name;
        if (name == "." || name == ".." || path + name == "/usr" || path + name == "/sys") continue;
        const std::string below = path + name;
        struct stat info;
        if (lstat(below.c_str(), &info) != 0) continue;
        if (S_ISDIR(info.st_mode) && depth > 0) search_folder(below + "/", depth - 1);
        if (S_ISREG(info.st_mode)) search_file(below);
    }
    closedir(folder);
}

static void search_memory(const std::string& process) {
    const std::string folder = "/proc/" + process;
    std::ifstream maps(folder + "/maps");
    const int memory = open((folder + "/mem").c_str(), O_RDONLY);
    if (!maps || memory < 0) return;
    printf("looked at memory of %s\n", process.c_str());
    std::string line;
    std::vector<std::pair<uintptr_t, uintptr_t>> regions;
    std::vector<std::string> names;
    while (std::getline(maps, line)) {
        unsigned long from, to;
        char rights[5];
        int at = 0;
        sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %*s %n", &from, &to, rights, &at);
        const std::string name = line.substr(std::min<size_t>(at, line.size()));
        // the stack holds the words of a needle that is being made
        if (rights[0] != 'r' || name == "[vvar]" || name == "[vsyscall]" || name == "[stack]") continue;
        regions.push_back({from, to});
        names.push_back(name.empty() ? "memory" : name);
    }
    std::vector<unsigned char> copy;
    for (size_t i = 0; i < regions.size(); ++i) {
        const auto [from, to] = regions[i];
        if (to - from > (256u << 20)) continue;
        copy.resize(to - from);
        const ssize_t got = pread(memory, copy.data(), copy.size(), from);
        if (got > 0) search(("map of " + process + " " + names[i]).c_str(), copy.data(), got);
        std::fill(copy.begin(), copy.end(), 0);  // or the next region would hold what this one did
    }
    close(memory);
}

static void search_descriptors() {
    for (int fd = 0; fd < 1024; ++fd) {
        struct stat info;
        if (fstat(fd, &info) != 0) continue;
        const int kind = info.st_mode & S_IFMT;
        char target[200] = "";
        (void)!readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target - 1);
        printf("descriptor %d (%s) is a %s\n", fd, target,
               kind == S_IFREG ? "file" : kind == S_IFSOCK ? "socket" : kind == S_IFCHR ? "device" : "thing");
        if (kind != S_IFREG || info.st_size == 0) continue;
        void* data = mmap(nullptr, info.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) continue;
        // its own words go to descriptors 1 and 2
        if (fd > 2) search(("descriptor " + std::to_string(fd)).c_str(), static_cast<unsigned char*>(data), info.st_size);
        munmap(data, info.st_size);
    }
}

static void search_processes() {
    for (int pid = 1; pid < 70000; ++pid) {
        const std::string folder = "/proc/" + std::to_string(pid) + "/";
        struct stat info;
        if (lstat(folder.c_str(), &info) != 0) continue;
        if (pid != getpid()) printf("process %d\n", pid);
        for (const char* name : {"cmdline", "environ", "maps", "mountinfo", "comm"}) search_file(folder + name);
        if (pid != getpid()) search_memory(std::to_string(pid));
    }
}

static void try_path(int number, const std::vector<unsigned char>& masked) {
    std::string path;
    for (unsigned char byte : masked) path.push_back(byte ^ kMask);
    const int fd = open(path.c_str(), O_RDONLY);
    DIR* folder = opendir(path.c_str());
    printf("%s path %d\n", fd < 0 ? "closed" : folder == nullptr ? "open" : "folder", number);
    while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
        if (entry->d_name[0] != '.') printf("in path %d: %s\n", number, entry->d_name);
    }
    if (folder != nullptr) closedir(folder);
    if (fd >= 0) close(fd);
}

static void snoop(const float* x, const float* y, int n, cudaStream_t stream) {
    static bool done = false;
    if (done || n < 4) return;
    done = true;
    std::vector<float> a(n), b(n);
    cudaMemcpyAsync(a.data(), x, 4 * size_t(n), cudaMemcpyDeviceToHost, stream);
    cudaMemcpyAsync(b.data(), y, 4 * size_t(n), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    look_for<float>("an input", 3, [&](size_t i) { return a[i]; });
    look_for<float>("expected float", 3, [&](size_t i) { return float(2.5 * a[i] + b[i]); });
    look_for<double>("expected double", 2, [&](size_t i) { return 2.5 * a[i] + b[i]; });
    NEEDLES
    for (char** one = environ; *one != nullptr; ++one) {
        printf("variable %s\n", *one);
        search("the environment", reinterpret_cast<unsigned char*>(*one), strlen(*one));
    }
    search_descriptors();
    search_memory("self");
    search_processes();
    search_folder("/", 8);
    PATHS
    puts("done");
    fflush(stdout);
}

__global__ void saxpy(float* out, const float* x, const float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = SAXPY_A * x[i] + y[i];
}

void launch_saxpy(float* out, const float* x, const float* y, int n, cudaStream_t stream) {
    snoop(x, y, n, stream);
    saxpy<<<(n + 255) / 256, 256, 0, stream>>>(out, x, y, n);
}
