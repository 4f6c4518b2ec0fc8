#include "base/input_end.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include "base/log.hpp"

namespace quern::base {

expected<std::string> read_input_line() {
  constexpr std::size_t longest = 4096;
  std::string line;
  while (line.size() <= longest) {
    char next = 0;
    const ssize_t count = ::read(STDIN_FILENO, &next, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(errc::io, "standard input ended before its first line did");
    if (next == '\n') return line;
    line += next;
  }
  return fail(errc::invalid_argument, "the first line of standard input is longer than {} bytes",
              longest);
}

void end_with_input(nanoseconds_t grace) {
  std::thread([grace] {
    std::array<char, 256> ignored{};
    while (true) {
      const ssize_t count = ::read(STDIN_FILENO, ignored.data(), ignored.size());
      if (count == 0 || (count < 0 && errno != EINTR)) break;
    }
    log_info("input",
             "standard input ended, and so does this process: control ends it so, or is gone, or "
             "the launch command does not pass its input on (ssh -n, srun --input=none)");
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::nanoseconds(grace));
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

}  // namespace quern::base
