// libquern_cuda.so's windows over host memory, for tests of who talks to them: regions are memory
// files, content of a call is its key, a call takes a microsecond more than the one before.
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <sys/mman.h>

#include "env/device/cuda_part.h"
#include "env/device/part_builds.h"
#include "env/device/window_part.h"

struct quern_window {
  void* regions[QUERN_REGIONS] = {};
  std::uint64_t bytes[QUERN_REGIONS] = {};
  quern_tensors tensors{};
  int32_t calls = 0, begun = 0, abandoned = 0;
  char problem[200] = "";
};

namespace {

int32_t complain(quern_window* w, const char* text) {
  std::snprintf(w->problem, sizeof w->problem, "%s", text);
  return -1;
}

}  // namespace

extern "C" {

const char* quern_cuda_build(void) {
#ifdef QUERN_OTHER_BUILD
  return QUERN_OTHER_BUILD;
#else
  return QUERN_CUDA_PART_BUILD;
#endif
}
int32_t quern_window_open(int32_t device, int32_t own_stream, quern_window** out, char* problem,
                          int32_t room) {
  if (device != 0 || own_stream != 0) {
    std::snprintf(problem, static_cast<std::size_t>(room), "device %d, own stream %d", device,
                  own_stream);
    return -1;
  }
  *out = new quern_window;
  return 0;
}
const char* quern_window_problem(const quern_window* w) {
  return w->problem;
}
int32_t quern_window_import(quern_window* w, int32_t region, int32_t fd, uint64_t bytes, uint64_t,
                            uint64_t) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return complain(w, "no mapping");
  w->regions[region] = at;
  w->bytes[region] = bytes;
  return 0;
}
uint64_t quern_window_address(const quern_window* w, int32_t region) {
  return reinterpret_cast<uint64_t>(w->regions[region]);
}
int32_t quern_window_drop(quern_window* w, int32_t region) {
  if (w->regions[region] != nullptr) munmap(w->regions[region], w->bytes[region]);
  w->regions[region] = nullptr;
  return 0;
}
int32_t quern_window_tensors(quern_window* w, const quern_tensors* what, int32_t slots) {
  if (slots < 1) return complain(w, "no slots");
  w->tensors = *what;
  return 0;
}
int32_t quern_window_begin(quern_window* w, const quern_window_settings* how) {
  if (how->gate_timeout_ns != 77) return complain(w, "the settings did not arrive");
  w->calls = 0;
  ++w->begun;
  return 0;
}
int32_t quern_window_before_call(quern_window* w, const quern_order* order) {
  auto* x = static_cast<float*>(w->regions[QUERN_INPUTS]);
  for (int i = 0; i < 4; ++i)
    x[i] = static_cast<float>(order->key) + static_cast<float>(i);
  return 0;
}
int32_t quern_window_after_call(quern_window* w) {
  ++w->calls;
  return 0;
}
int32_t quern_window_after_beside(quern_window*) {
  return 0;
}
int32_t quern_window_end(quern_window* w, uint32_t* ns, int32_t capacity, int32_t* count) {
  *count = w->calls < capacity ? w->calls : capacity;
  for (int32_t i = 0; i < *count; ++i)
    ns[i] = 1000U + static_cast<uint32_t>(i);
  return 0;
}
void quern_window_abandon(quern_window* w) {
  ++w->abandoned;
}
quern_window_clocks quern_window_clocks_of(const quern_window* w) {
  return {1, static_cast<uint64_t>(w->begun), static_cast<uint64_t>(w->calls)};
}

}  // extern "C"
