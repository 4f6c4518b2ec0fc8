// libquern_aten_cuda.so of another build, and without a device: it says yes to all that is asked.
#include <cstdint>

#include "env/reference/graph_part.h"

struct quern_graph {};

extern "C" {

const char* quern_aten_cuda_build(void) {
  return "0123456789abcdef";
}
int32_t quern_graph_open(int32_t, quern_graph** out, char*, int32_t) {
  static quern_graph only;
  *out = &only;
  return 0;
}
const char* quern_graph_problem(const quern_graph*) {
  return "";
}
int32_t quern_graph_capture(quern_graph*, quern_graph_call call, void* context) {
  return call(context);
}
int32_t quern_graph_replay(quern_graph*) {
  return 0;
}
int32_t quern_graph_clear(quern_graph*) {
  return 0;
}
}
