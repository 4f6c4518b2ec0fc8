// Machine code as the compilers' sandbox hands it out: an ELF file.
#include "env/lanes/cuda/build/cubin.hpp"

#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const auto kernels = env::read_cubin(text);
  if (!kernels) {
    require(kernels.error().code == base::errc::corrupt, "what is wrong is the file");
    return;
  }
  for (const env::kernel_resources& one : *kernels)
    require(one.registers >= 0 && one.shared_bytes >= 0 && one.local_bytes >= 0,
            "a kernel takes no less than nothing");
}
