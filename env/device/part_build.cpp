// The builds of what is loaded at run time.
#include "env/device/part_build.hpp"

#include <cstdio>
#include <cstring>

#include <dlfcn.h>

#include "env/device/part_builds.h"

namespace quern::env {

const char* cuda_part_build() {
  return QUERN_CUDA_PART_BUILD;
}
const char* aten_part_build() {
  return QUERN_ATEN_PART_BUILD;
}
const char* compiled_reference_text() {
  return
#include "env/device/compiled_reference_text.h"
      ;
}

bool is_of_this_build(const char* path, const char* found, const char* wanted, char* problem,
                      std::size_t room) {
  if (found != nullptr && std::strcmp(found, wanted) == 0) return true;
  std::snprintf(
      problem, room,
      "%s is of another build: it is %.64s, this program goes with %.64s; build or install "
      "all of Quern",
      path, found != nullptr ? found : "of no build that it tells", wanted);
  return false;
}

bool is_of_this_build(void* library, const char* function, const char* path, const char* wanted,
                      char* problem, std::size_t room) {
  using tell = const char* (*)();
  const auto told = reinterpret_cast<tell>(dlsym(library, function));
  return is_of_this_build(path, told != nullptr ? told() : nullptr, wanted, problem, room);
}

}  // namespace quern::env
