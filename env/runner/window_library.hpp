// The functions of env/device/window_part.h, looked up in libquern_cuda.so; for programs that must
// not link it. No exceptions, no allocation.
#pragma once

#include <array>

#include <dlfcn.h>

#include "env/device/part_build.hpp"
#include "env/device/window_part.h"

namespace quern::env::runner {

struct window_library {
  decltype(&::quern_window_driver) driver = nullptr;
  decltype(&::quern_window_open) open = nullptr;
  decltype(&::quern_window_warm_up) warm_up = nullptr;
  decltype(&::quern_window_problem) problem = nullptr;
  decltype(&::quern_window_cause) cause = nullptr;
  decltype(&::quern_window_stream) stream = nullptr;
  decltype(&::quern_window_import) import = nullptr;
  decltype(&::quern_window_address) address = nullptr;
  decltype(&::quern_window_drop) drop = nullptr;
  decltype(&::quern_window_load) load = nullptr;
  decltype(&::quern_window_unload) unload = nullptr;
  decltype(&::quern_window_tensors) tensors = nullptr;
  decltype(&::quern_window_program) program = nullptr;
  decltype(&::quern_window_begin) begin = nullptr;
  decltype(&::quern_window_before_call) before_call = nullptr;
  decltype(&::quern_window_after_call) after_call = nullptr;
  decltype(&::quern_window_after_beside) after_beside = nullptr;
  decltype(&::quern_window_end) end = nullptr;
  decltype(&::quern_window_abandon) abandon = nullptr;
  decltype(&::quern_window_clocks_of) clocks = nullptr;
  decltype(&::quern_window_run) run = nullptr;

  /// Null, or why it cannot be used; that text lives as long as this object. The library stays
  /// loaded.
  const char* load_from(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    if (!is_of_this_build(library, cuda_build_function, path, cuda_part_build(), text_.data(),
                          text_.size()))
      return text_.data();
    const bool complete =
        find(library, driver, "quern_window_driver") && find(library, open, "quern_window_open") &&
        find(library, warm_up, "quern_window_warm_up") &&
        find(library, problem, "quern_window_problem") &&
        find(library, cause, "quern_window_cause") &&
        find(library, stream, "quern_window_stream") &&
        find(library, import, "quern_window_import") &&
        find(library, address, "quern_window_address") &&
        find(library, drop, "quern_window_drop") && find(library, load, "quern_window_load") &&
        find(library, unload, "quern_window_unload") &&
        find(library, tensors, "quern_window_tensors") &&
        find(library, program, "quern_window_program") &&
        find(library, begin, "quern_window_begin") &&
        find(library, before_call, "quern_window_before_call") &&
        find(library, after_call, "quern_window_after_call") &&
        find(library, after_beside, "quern_window_after_beside") &&
        find(library, end, "quern_window_end") && find(library, abandon, "quern_window_abandon") &&
        find(library, clocks, "quern_window_clocks_of") && find(library, run, "quern_window_run");
    return complete ? nullptr : "libquern_cuda.so is of another build";
  }

 private:
  std::array<char, 400> text_{};

  template <class F>
  static bool find(void* library, F& to, const char* name) {
    to = reinterpret_cast<F>(dlsym(library, name));
    return to != nullptr;
  }
};

}  // namespace quern::env::runner
