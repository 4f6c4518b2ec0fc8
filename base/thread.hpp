// Threads, and exceptions that come out of what nobody expected to throw, as errors with a cause.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/status.hpp"

namespace quern::base {

/// What was thrown, in a sentence that ends without a full stop; where a limit of memory, processes
/// or descriptors may be the cause, with what to do. Throws std::bad_alloc where there is no memory
/// for the text.
std::string exception_text(const std::exception_ptr& thrown);

/// Gives the calling thread a name, as /proc and debuggers show it: at most 15 bytes, the rest is
/// cut. Threads that it makes from then on begin with that name.
void name_this_thread(std::string_view name);

/// A thread that runs `work`. Error: exhausted, where the system makes no thread; names `purpose`
/// ("watching learner") and the limits.
template <class Work>
expected<std::thread> start_thread(std::string_view purpose, Work&& work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error&) {
    return fail(errc::exhausted, "no thread for {}: {}", purpose,
                exception_text(std::current_exception()));
  }
}

}  // namespace quern::base
