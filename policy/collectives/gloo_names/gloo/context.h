// torch's ProcessGroupGloo.hpp includes Gloo's headers, which its wheel does not ship. Nothing of
// Gloo is called from here: these are the names alone that the header needs in order to compile;
// the definitions are in libtorch_cpu.so.
#pragma once

#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
