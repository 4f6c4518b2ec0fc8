// Counts what the C library refused to a module's process, where what became of that does not tell.
// torch's allocator of the CPU throws what becomes a plain RuntimeError, whose text any module can
// raise; libgomp ends the process.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <pthread.h>

#include "env/lanes/pytorch/process/python_part.h"

namespace {

std::atomic<uint64_t> refused_allocations = 0;
std::atomic<uint64_t> refused_threads = 0;

}  // namespace

// In the place of the C library's where this library is preloaded (python_zygote.cpp).
extern "C" QUERN_PYTHON_PART int posix_memalign(void** made, size_t alignment,
                                                size_t bytes) noexcept {
  static const auto real =
      reinterpret_cast<decltype(&posix_memalign)>(dlsym(RTLD_NEXT, "posix_memalign"));
  const int error = real(made, alignment, bytes);
  if (error == ENOMEM) ++refused_allocations;
  return error;
}

extern "C" QUERN_PYTHON_PART int pthread_create(pthread_t* made, const pthread_attr_t* attributes,
                                                void* (*work)(void*), void* argument) noexcept {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  const int error = real(made, attributes, work, argument);
  if (error != 0) ++refused_threads;
  return error;
}

uint64_t quern_python_refused_memory() {
  return refused_allocations;
}

uint64_t quern_python_refused_threads() {
  return refused_threads;
}
