// libquern_cuda.so's windows without a device, whose contexts take their time: for tests of who
// makes processes ahead. Nothing can be run in them.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <time.h>

#include "env/device/cuda_part.h"
#include "env/device/part_builds.h"
#include "env/device/window_part.h"

struct quern_window {
  int32_t mapped = 0;
  int32_t cause = QUERN_CAUSE_UNKNOWN;
};

namespace {

// In many short sleeps, so that a process that is stopped meanwhile takes longer.
void take_time() {
  for (int i = 0; i < 40; ++i) {
    const timespec step{0, 1'000'000};
    nanosleep(&step, nullptr);
  }
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
int32_t quern_window_driver(char*, int32_t) {
  return 0;
}
int32_t quern_window_open(int32_t, int32_t, quern_window** out, char*, int32_t) {
  take_time();
  *out = new quern_window;
  return 0;
}
int32_t quern_window_warm_up(quern_window*) {
  take_time();
  return 0;
}
const char* quern_window_problem(const quern_window*) {
  const char* queues = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return queues == nullptr ? "no device, all queues" : "no device, one queue";
}
int32_t quern_window_cause(const quern_window* w) {
  return w->cause;
}
uint64_t quern_window_stream(const quern_window*) {
  return 0;
}
int32_t quern_window_import(quern_window* w, int32_t, int32_t, uint64_t, uint64_t, uint64_t) {
  ++w->mapped;
  return 0;
}
uint64_t quern_window_address(const quern_window* w, int32_t) {
  return static_cast<uint64_t>(w->mapped);
}
int32_t quern_window_drop(quern_window*, int32_t) {
  return 0;
}
int32_t quern_window_load(quern_window* w, const void*, const char* const*, int32_t count) {
  // As many kernels as the cause that it is to have.
  w->cause = count;
  return -1;
}
int32_t quern_window_unload(quern_window*) {
  return 0;
}
int32_t quern_window_tensors(quern_window*, const quern_tensors*, int32_t) {
  return -1;
}
int32_t quern_window_program(quern_window*, const quern_step*, int32_t, const quern_parameter*,
                             int32_t) {
  return -1;
}
int32_t quern_window_begin(quern_window*, const quern_window_settings*) {
  return -1;
}
int32_t quern_window_before_call(quern_window*, const quern_order*) {
  return -1;
}
int32_t quern_window_after_call(quern_window*) {
  return -1;
}
int32_t quern_window_after_beside(quern_window*) {
  return 0;
}
int32_t quern_window_end(quern_window*, uint32_t*, int32_t, int32_t*) {
  return -1;
}
void quern_window_abandon(quern_window*) {}
quern_window_clocks quern_window_clocks_of(const quern_window*) {
  return {};
}
int32_t quern_window_run(quern_window*, const quern_window_settings*, const quern_order*, int32_t,
                         uint32_t*) {
  return -1;
}
}
