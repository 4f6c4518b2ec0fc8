#include "tools/cli/last_words.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <unistd.h>

#include "base/thread.hpp"
#include "tools/cli/command.hpp"

namespace quern::tools {
namespace {

const char* ending_program = "";

/// The stack stays as it is: what lives on it might wait for what the exception came from, and a
/// run is safe to leave at any time. Its children end with this process.
[[noreturn]] void tell_and_leave() {
  try {
    const auto problem = std::current_exception();
    std::fprintf(stderr, "%s: cannot go on: %s\n", ending_program,
                 problem ? base::exception_text(problem).c_str() : "std::terminate");
  } catch (...) {
    std::fprintf(stderr, "%s: cannot go on: no memory is left\n", ending_program);
  }
  std::_Exit(failed);
}

/// A library has given up with abort(), as libzmq does where it gets no thread, and said why. Only
/// calls that a signal handler may make.
void on_abort(int) {
  for (const std::string_view part :
       {std::string_view("\n"), std::string_view(ending_program),
        std::string_view(
            ": cannot go on: a library ended this process, its words stand above; raise "
            "the limit that they name, of threads (ulimit -u, pids.max), memory "
            "(ulimit -v) or open files (ulimit -n)\n")})
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
  std::_Exit(failed);
}

}  // namespace

void end_with_last_words(const char* program) {
  ending_program = program;
  std::set_terminate(tell_and_leave);
  std::signal(SIGABRT, on_abort);
}

}  // namespace quern::tools
