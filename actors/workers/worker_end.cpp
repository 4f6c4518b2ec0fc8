#include "actors/workers/worker_end.hpp"

#include <cstdio>

#include <unistd.h>

#include "actors/defaults.hpp"
#include "base/log.hpp"

namespace quern::actors {

base::error error_of(const std::exception_ptr& thrown, std::string_view who) {
  const auto told = [&](std::string_view what) {
    // LibTorch writes its stack below the first line.
    return base::error{base::errc::internal,
                       fmt::format("{}: {}", who, what.substr(0, what.find('\n')))};
  };
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& e) {
    return told(e.what());
  } catch (...) {
    return told("something was thrown that says nothing of itself");
  }
}

void end_worker(std::string_view component, const base::error& problem) {
  base::log_error(component, "{}; this process ends and starts again", problem.message);
  std::fflush(nullptr);
  ::_exit(defaults::worker_failed_code);
}

}  // namespace quern::actors
