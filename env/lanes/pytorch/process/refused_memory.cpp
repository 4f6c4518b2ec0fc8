// Counts what torch's allocator of the CPU was refused. It throws what becomes a plain
// RuntimeError, whose text any module can raise, so the count decides whether memory was the
// reason.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>

#include "env/lanes/pytorch/process/python_part.h"

namespace {

std::atomic<uint64_t> refused_allocations = 0;

}  // namespace

/// In the place of the C library's where this library is preloaded (python_zygote.cpp).
extern "C" QUERN_PYTHON_PART int posix_memalign(void** made, size_t alignment,
                                                size_t bytes) noexcept {
  using function = int (*)(void**, size_t, size_t);
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "posix_memalign"));
  const int error = real(made, alignment, bytes);
  if (error == ENOMEM) ++refused_allocations;
  return error;
}

uint64_t quern_python_refused_memory() {
  return refused_allocations;
}
