// The file around machine code: names of kernels and where the code lies.
#include "env/lanes/cuda/build/device_code.hpp"

#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const auto what = env::read_device_code(text);
  if (!what) return;
  require(what->offset <= text.size() && what->bytes == text.size() - what->offset,
          "the code ends the file");
  require(what->kernels.size() <= env::most_device_kernels, "kernels are bounded");
  const auto again = env::write_device_code(*what, text.substr(what->offset));
  require(again.has_value(), "what was read can be written");
  require(env::read_device_code(*again) == *what || again->size() != text.size(),
          "what was written is read the same");
}
