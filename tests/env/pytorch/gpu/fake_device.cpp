// libquern_cuda.so without a device, for tests: regions are memory files. What the device would do
// is done as late as may be: when somebody waits for it. Content, bandwidth and calls by plans are
// not there.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "env/device/context_part.h"
#include "env/device/cuda_part.h"
#include "env/device/part_builds.h"
#include "env/device/window_part.h"

struct quern_context {
  std::vector<std::function<void()>> queued, copies;
  std::vector<quern_finding> findings;
};

struct quern_window {
  void* regions[QUERN_REGIONS] = {};
  const char* problem = "";
};

namespace {

constexpr uint64_t granule = 2 << 20;

template <class Value>
Value read_as(uint64_t at, uint64_t index) {
  Value value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(at) + index * sizeof value, sizeof value);
  return value;
}

uint64_t width_of(int32_t type) {
  switch (type) {
    case QUERN_F64:
    case QUERN_I64:
      return 8;
    case QUERN_U8:
      return 1;
    case QUERN_BF16:
    case QUERN_F16:
      return 2;
    default:
      return 4;
  }
}

void note_finding(quern_context* context, uint64_t count, auto is_wrong) {
  context->queued.push_back([=] {
    quern_finding found{0, 0};
    for (uint64_t i = 0; i < count; ++i)
      if (is_wrong(i) && found.wrong++ == 0) found.first = i;
    context->findings.push_back(found);
  });
}

void catch_up(quern_context* context) {
  for (const auto& work : context->queued)
    work();
  context->queued.clear();
}

void (*behind_copies)() = nullptr;
void (*behind_waits)() = nullptr;

void move_rows(uint64_t to, uint64_t to_pitch, uint64_t from, uint64_t from_pitch,
               const quern_byte_rows& of) {
  for (uint64_t row = 0; row < of.rows; ++row)
    std::memcpy(reinterpret_cast<void*>(to + row * to_pitch),
                reinterpret_cast<const void*>(from + row * from_pitch), of.width);
}

/// A number of /proc/PID/status; 0: it is not there.
uint64_t status_number(const std::filesystem::path& process, const std::string& key) {
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":"))
      return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10);
  return 0;
}

/// Where a test says so, memory that descendants of this process share stands for device memory, a
/// page for sixteen. (That of the evaluator's regions is little.)
uint64_t taken_by_children() {
  if (std::getenv("QUERN_TEST_DEVICE_MEMORY") == nullptr) return 0;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> processes;  // parent and KiB by pid
  std::error_code ended;
  for (std::filesystem::directory_iterator at("/proc", ended), end; !ended && at != end;
       at.increment(ended)) {
    const uint64_t pid = std::strtoull(at->path().filename().c_str(), nullptr, 10);
    if (pid > 0)
      processes[pid] = {status_number(at->path(), "PPid"), status_number(at->path(), "RssShmem")};
  }
  uint64_t kib = 0;
  for (const auto& [pid, process] : processes)
    for (uint64_t parent = process.first; parent > 1 && processes.contains(parent);
         parent = processes[parent].first)
      if (parent == static_cast<uint64_t>(::getpid())) {
        kib += process.second;
        break;
      }
  return 16 * 1024 * kib;
}

int32_t map_fd(quern_window* w, int32_t region, int32_t fd, uint64_t bytes, int rights) {
  if (region < 0 || region >= QUERN_REGIONS) {
    w->problem = "no such region";
    return -1;
  }
  void* at = ::mmap(nullptr, bytes, rights, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    w->problem = "no mapping";
    return -1;
  }
  w->regions[region] = at;
  return 0;
}

}  // namespace

extern "C" {

const char* quern_cuda_build(void) {
  return QUERN_CUDA_PART_BUILD;
}

/// For tests: is called whenever copies were waited for. Null: nothing is.
void quern_fake_behind_copies(void (*then)()) {
  behind_copies = then;
}

/// The same of all else that was queued.
void quern_fake_behind_waits(void (*then)()) {
  behind_waits = then;
}

// ---- the evaluator's side

int32_t quern_context_open(int32_t, quern_context** out, char*, int32_t) {
  *out = new quern_context;
  return 0;
}
void quern_context_close(quern_context* context) {
  delete context;
}
int32_t quern_context_end_cuda(int32_t) {
  return 0;
}
const char* quern_context_problem(const quern_context*) {
  return "a device that is none";
}
int32_t quern_context_facts_of(quern_context*, quern_context_facts* out) {
  *out = {};
  std::snprintf(out->name, sizeof out->name, "none");
  // Whoever has the same name takes turns.
  if (const char* own = std::getenv("QUERN_TEST_DEVICE"); own != nullptr)
    std::snprintf(out->bus_id, sizeof out->bus_id, "%s", own);
  out->major = 9;
  out->multiprocessors = 1;
  out->memory_bytes = uint64_t{1} << 30;
  out->l2_bytes = 1 << 16;
  out->granularity = granule;
  return 0;
}
int32_t quern_context_free_bytes(quern_context*, uint64_t* out) {
  *out = (uint64_t{1} << 40) - taken_by_children();
  return 0;
}
int32_t quern_context_allocate(quern_context*, uint64_t bytes, quern_allocation* out) {
  // A test may name a size that there is no room for.
  const char* refused = std::getenv("QUERN_TEST_DEVICE_REFUSES");
  if (refused != nullptr && std::strtoull(refused, nullptr, 10) == bytes) return -1;
  const uint64_t whole = (bytes + granule - 1) / granule * granule;
  const int fd = ::memfd_create("piece", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(whole)) != 0) return -1;
  void* at = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return -1;
  *out = {reinterpret_cast<uint64_t>(at), whole, 0, fd};
  return 0;
}
int32_t quern_context_release(quern_context* context, quern_allocation* region) {
  catch_up(context);
  ::munmap(reinterpret_cast<void*>(region->address), region->bytes);
  ::close(region->fd);
  return 0;
}
int32_t quern_context_fill(quern_context*, uint64_t, const quern_content*) {
  return -1;
}
int32_t quern_context_fill_some(quern_context*, uint64_t, const quern_content*, int64_t, int64_t) {
  return -1;
}
int32_t quern_context_set(quern_context* context, uint64_t address, uint64_t bytes, uint32_t word) {
  context->queued.push_back([=] {
    for (uint64_t at = 0; at + 4 <= bytes; at += 4)
      std::memcpy(reinterpret_cast<std::byte*>(address) + at, &word, 4);
  });
  return 0;
}
int32_t quern_context_copy(quern_context* context, uint64_t to, uint64_t from, uint64_t bytes) {
  context->queued.push_back([=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  });
  return 0;
}
int32_t quern_context_compare(quern_context* context, uint64_t got, uint64_t want, int32_t type,
                              int64_t elements, double atol, double rtol, int32_t) {
  if (type != QUERN_F32) return -1;
  note_finding(context, static_cast<uint64_t>(elements), [=](uint64_t i) {
    const double a = read_as<float>(got, i), b = read_as<float>(want, i);
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) != std::isnan(b);
    return !(std::abs(a - b) <= atol + rtol * std::abs(b));
  });
  return 0;
}
int32_t quern_context_same_bits(quern_context* context, uint64_t a, uint64_t b, int32_t type,
                                int64_t elements) {
  const uint64_t width = width_of(type);
  note_finding(context, static_cast<uint64_t>(elements), [=](uint64_t i) {
    return std::memcmp(reinterpret_cast<const std::byte*>(a) + i * width,
                       reinterpret_cast<const std::byte*>(b) + i * width, width) != 0;
  });
  return 0;
}
int32_t quern_context_check_content(quern_context*, uint64_t, const quern_content*) {
  return -1;
}
int32_t quern_context_check_pattern(quern_context* context, uint64_t address, uint64_t bytes,
                                    uint32_t word) {
  note_finding(context, bytes / 4,
               [=](uint64_t i) { return read_as<uint32_t>(address, i) != word; });
  return 0;
}
int32_t quern_context_wait(quern_context* context, quern_finding* out, int32_t capacity,
                           int32_t* count) {
  catch_up(context);
  if (behind_waits != nullptr) behind_waits();
  *count = static_cast<int32_t>(context->findings.size());
  if (*count > capacity) return -1;
  for (int32_t i = 0; i < *count; ++i)
    out[i] = context->findings[static_cast<std::size_t>(i)];
  context->findings.clear();
  return 0;
}
int32_t quern_context_read(quern_context* context, void* to, uint64_t from, uint64_t bytes) {
  catch_up(context);
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
int32_t quern_context_write(quern_context* context, uint64_t to, const void* from, uint64_t bytes) {
  catch_up(context);
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int32_t quern_context_pin(quern_context*, uint64_t bytes, void** out) {
  *out = std::calloc(bytes, 1);
  return *out != nullptr ? 0 : -1;
}
int32_t quern_context_unpin(quern_context*, void* memory) {
  std::free(memory);
  return 0;
}
int32_t quern_context_send(quern_context* context, uint64_t to, const void* from,
                           const quern_byte_rows* rows) {
  context->copies.push_back([=, r = *rows] {
    move_rows(to, r.device_pitch, reinterpret_cast<uint64_t>(from), r.host_pitch, r);
  });
  return 0;
}
int32_t quern_context_fetch(quern_context* context, void* to, uint64_t from,
                            const quern_byte_rows* rows) {
  context->copies.push_back([=, r = *rows] {
    move_rows(reinterpret_cast<uint64_t>(to), r.host_pitch, from, r.device_pitch, r);
  });
  return 0;
}
int32_t quern_context_wait_copies(quern_context* context) {
  for (const auto& copy : context->copies)
    copy();
  context->copies.clear();
  if (behind_copies != nullptr) behind_copies();
  return 0;
}
int32_t quern_context_copy_rows(quern_context* context, uint64_t to, uint64_t from, uint64_t width,
                                uint64_t rows, uint64_t pitch) {
  context->queued.push_back([=] {
    move_rows(to, pitch, from, pitch, {width, rows, pitch, pitch});
  });
  return 0;
}
int32_t quern_context_bandwidth(quern_context*, uint64_t, double* out) {
  *out = 1e12;  // a roofline that nobody on a core comes near
  return 0;
}

// ---- a module's process

int32_t quern_window_open(int32_t, int32_t, quern_window** out, char*, int32_t) {
  *out = new quern_window;
  return 0;
}
const char* quern_window_problem(const quern_window* w) {
  return w->problem;
}
int32_t quern_window_import(quern_window* w, int32_t region, int32_t fd, uint64_t bytes, uint64_t,
                            uint64_t) {
  return map_fd(w, region, fd, bytes, PROT_READ | PROT_WRITE);
}
int32_t quern_window_import_to_read(quern_window* w, int32_t region, int32_t fd, uint64_t bytes,
                                    uint64_t) {
  return map_fd(w, region, fd, bytes, PROT_READ);
}
uint64_t quern_window_address(const quern_window* w, int32_t region) {
  return reinterpret_cast<uint64_t>(w->regions[region]);
}
}
