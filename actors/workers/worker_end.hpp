// How a worker's process ends when LibTorch or CUDA throw out of its work: it says who was at what,
// and is started again.
#pragma once

#include <exception>
#include <string_view>

#include "base/status.hpp"

namespace quern::actors {

/// What was thrown, without the backtrace: "`who`: CUDA error: out of memory".
base::error error_of(const std::exception_ptr& thrown, std::string_view who);

/// Runs `work`, which returns a status or an expected; what it throws is an error of `who`.
template <class Work>
auto caught(std::string_view who, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (...) {
    return tl::make_unexpected(error_of(std::current_exception(), who));
  }
}

/// Says it and ends this process at once with defaults::worker_failed_code: what holds memory of a
/// GPU that has failed cannot be taken down in order.
[[noreturn]] void end_worker(std::string_view component, const base::error& problem);

}  // namespace quern::actors
