#include "base/thread.hpp"

#include <new>

#include <fmt/format.h>
#include <pthread.h>

#include "base/descriptors.hpp"

namespace quern::base {

std::string exception_text(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return "no memory is left: raise the limit of this process (ulimit -v, memory.max), or use a "
           "machine with more";
  } catch (const std::system_error& problem) {
    const auto is = [&](std::errc code) { return problem.code() == code; };
    if (is(std::errc::resource_unavailable_try_again))
      return fmt::format(
          "{}: raise the limit of processes and threads (ulimit -u, pids.max) or of "
          "memory (ulimit -v)",
          problem.what());
    if (is(std::errc::too_many_files_open))
      return fmt::format("{}: this process may have {} open; raise that (ulimit -n)",
                         problem.what(), descriptor_limit());
    return problem.what();
  } catch (const std::exception& problem) {
    return problem.what();
  } catch (...) {
    return "something was thrown that says nothing of itself";
  }
}

void name_this_thread(std::string_view name) {
  constexpr std::size_t longest = 15;
  (void)::pthread_setname_np(::pthread_self(), std::string(name.substr(0, longest)).c_str());
}

}  // namespace quern::base
