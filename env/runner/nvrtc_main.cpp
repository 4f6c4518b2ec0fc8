// CUDA's run-time compiler in a process of its own. Like all of quern-runner without exceptions and
// without CUDA's headers: the library is loaded by name.
#include "env/runner/nvrtc_main.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/runner/nvrtc_request.hpp"

namespace quern::env::runner {
namespace {

// Of nvrtcResult, those that tell whose mistake it was.
constexpr int wrong_option = 5, wrong_source = 6, no_builtins = 7;

using program = struct nvrtc_program*;

struct nvrtc_library {
  int (*create)(program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*add_name)(program, const char*);
  int (*compile)(program, int, const char* const*);
  int (*log_size)(program, std::size_t*);
  int (*log)(program, char*);
  int (*code_size)(program, std::size_t*);
  int (*code)(program, char*);
  int (*symbol)(program, const char*, const char**);
  const char* (*error_text)(int);
};

int complain(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  return nvrtc_unusable;
}

bool load(const char* path, nvrtc_library& out) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  const auto get = [&](auto& to, const char* name) {
    void* found = dlsym(library, name);
    std::memcpy(&to, &found, sizeof to);
    return found != nullptr;
  };
  return get(out.create, "nvrtcCreateProgram") && get(out.add_name, "nvrtcAddNameExpression") &&
         get(out.compile, "nvrtcCompileProgram") && get(out.log_size, "nvrtcGetProgramLogSize") &&
         get(out.log, "nvrtcGetProgramLog") && get(out.code_size, "nvrtcGetCUBINSize") &&
         get(out.code, "nvrtcGetCUBIN") && get(out.symbol, "nvrtcGetLoweredName") &&
         get(out.error_text, "nvrtcGetErrorString");
}

struct request {
  nvrtc_request_head head;
  const char* texts[nvrtc_most_texts];
  const char* header_names[nvrtc_most_texts];
  const char* header_texts[nvrtc_most_texts];
  const char* const* names = nullptr;
  const char* source = nullptr;
};

bool read_request(request& out) {
  struct stat info {};
  if (fstat(nvrtc_request_fd, &info) != 0) return false;
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (bytes < sizeof out.head) return false;
  const auto* begin =
      static_cast<const char*>(mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, nvrtc_request_fd, 0));
  if (begin == MAP_FAILED) return false;
  std::memcpy(&out.head, begin, sizeof out.head);
  const std::uint64_t wanted =
      std::uint64_t{out.head.options} + 2ULL * out.head.headers + out.head.names + 1;
  if (out.head.magic != nvrtc_request_magic || wanted > nvrtc_most_texts) return false;
  const char* at = begin + sizeof out.head;
  const char* const end = begin + bytes;
  for (std::uint64_t i = 0; i < wanted; ++i) {
    const void* zero = std::memchr(at, 0, static_cast<std::size_t>(end - at));
    if (zero == nullptr) return false;
    out.texts[i] = at;
    at = static_cast<const char*>(zero) + 1;
  }
  const char* const* next = out.texts + out.head.options;
  for (std::uint32_t i = 0; i < out.head.headers; ++i) {
    out.header_names[i] = *next++;
    out.header_texts[i] = *next++;
  }
  out.names = next;
  out.source = next[out.head.names];
  return true;
}

bool leave(const char* file, const char* content, std::size_t bytes) {
  const int fd = open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  while (bytes > 0) {
    const ssize_t done = write(fd, content, bytes);
    if (done <= 0) return false;
    content += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return close(fd) == 0;
}

void print_log(const nvrtc_library& nvrtc, program what) {
  std::size_t bytes = 0;
  if (nvrtc.log_size(what, &bytes) != 0 || bytes < 2) return;
  auto* text = static_cast<char*>(std::malloc(bytes));
  if (text != nullptr && nvrtc.log(what, text) == 0) std::fwrite(text, 1, bytes - 1, stderr);
  std::free(text);
}

// The symbol of every name, one behind the other.
bool leave_names(const nvrtc_library& nvrtc, program what, const request& asked) {
  const int fd = open(nvrtc_names_file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  for (std::uint32_t i = 0; i < asked.head.names; ++i) {
    const char* symbol = nullptr;
    if (nvrtc.symbol(what, asked.names[i], &symbol) != 0 || symbol == nullptr) return false;
    const std::size_t bytes = std::strlen(symbol) + 1;
    if (write(fd, symbol, bytes) != static_cast<ssize_t>(bytes)) return false;
  }
  return close(fd) == 0;
}

}  // namespace

int compile_with_nvrtc(const char* path) {
  static request asked;
  static nvrtc_library nvrtc;
  if (!read_request(asked)) return complain("nvrtc", "the request cannot be read");
  if (!load(path, nvrtc)) return complain(path, dlerror());
  program what = nullptr;
  if (const int e =
          nvrtc.create(&what, asked.source, "kernel.cu", static_cast<int>(asked.head.headers),
                       asked.header_texts, asked.header_names);
      e != 0)
    return complain("nvrtcCreateProgram", nvrtc.error_text(e));
  for (std::uint32_t i = 0; i < asked.head.names; ++i)
    if (const int e = nvrtc.add_name(what, asked.names[i]); e != 0)
      return complain(asked.names[i], nvrtc.error_text(e));
  const int compiled = nvrtc.compile(what, static_cast<int>(asked.head.options), asked.texts);
  print_log(nvrtc, what);
  if (compiled == wrong_option || compiled == no_builtins)
    return complain("nvrtcCompileProgram", nvrtc.error_text(compiled));
  if (compiled != 0) {
    if (compiled != wrong_source) std::fprintf(stderr, "%s\n", nvrtc.error_text(compiled));
    return nvrtc_refused;
  }
  std::size_t bytes = 0;
  if (nvrtc.code_size(what, &bytes) != 0 || bytes == 0)
    return complain("nvrtcGetCUBIN", "no machine code");
  auto* code = static_cast<char*>(std::malloc(bytes));
  if (code == nullptr || nvrtc.code(what, code) != 0 || !leave(nvrtc_code_file, code, bytes) ||
      !leave_names(nvrtc, what, asked))
    return complain("nvrtc", "the result cannot be written");
  // Its own destructors would take a tenth of the time that compiling took.
  std::fflush(stderr);
  _exit(nvrtc_built);
}

}  // namespace quern::env::runner
