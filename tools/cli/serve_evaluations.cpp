// The process around eval_service: lines in, lines out, and its end.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <poll.h>
#include <unistd.h>

#include "base/children.hpp"
#include "base/file.hpp"
#include "base/thread.hpp"
#include "base/write_signals.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/eval_service.hpp"

namespace quern::tools {
namespace {

constexpr const char* greeting = R"({"quern_eval": 1})";

/// For the end of what it has started, which nobody waits for any more.
constexpr std::chrono::milliseconds longest_end{1000};

[[noreturn]] void leave_at_once() {
  base::end_children(longest_end);
  base::temp_folder::remove_all_held();
  ::_exit(failed);
}

/// Ends the process when nobody can read its answers any more, also in the middle of an evaluation.
class client_watch {
 public:
  static base::expected<std::unique_ptr<client_watch>> start() {
    std::unique_ptr<client_watch> made(new client_watch());
    QUERN_TRY(made->thread_, base::start_thread("watching who reads the answers",
                                                [raw = made.get()] { raw->watch(); }));
    return made;
  }
  ~client_watch() {
    over_ = true;
    thread_.join();
  }
  client_watch(const client_watch&) = delete;
  client_watch& operator=(const client_watch&) = delete;

 private:
  client_watch() = default;
  void watch() const {
    constexpr int look_ms = 100;
    while (!over_) {
      pollfd output{STDOUT_FILENO, 0, 0};
      if (::poll(&output, 1, look_ms) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0)
        leave_at_once();
    }
  }

  std::atomic<bool> over_ = false;
  std::thread thread_;
};

/// Lines of standard input. Of one that is too long its first bytes, one more than are allowed.
class input_lines {
 public:
  /// Without its end; none at the end of the input. A last line may end without one.
  std::optional<std::string> next() {
    std::string line;
    bool began = false;
    for (;;) {
      if (at_ == size_ && !fill()) break;
      began = true;
      const std::string_view rest(buffer_.data() + at_, size_ - at_);
      const std::size_t end = rest.find('\n');
      const std::string_view part = rest.substr(0, end);
      line.append(
          part.substr(0, max_request_line + 1 - std::min(line.size(), max_request_line + 1)));
      at_ += part.size() + (end == std::string_view::npos ? 0 : 1);
      if (end != std::string_view::npos) return line;
    }
    return began ? std::optional(line) : std::nullopt;
  }

 private:
  bool fill() {
    ssize_t got = 0;
    do {
      got = ::read(STDIN_FILENO, buffer_.data(), buffer_.size());
    } while (got < 0 && errno == EINTR);
    at_ = 0;
    size_ = got > 0 ? static_cast<std::size_t>(got) : 0;
    return size_ > 0;
  }

  std::array<char, std::size_t{64} << 10> buffer_{};
  std::size_t at_ = 0, size_ = 0;
};

void write_line(std::string line) {
  line += '\n';
  if (!base::write_all(STDOUT_FILENO, line)) leave_at_once();
}

}  // namespace

int serve_evaluations(const eval_arguments& usual) {
  base::ignore_broken_pipes();
  const auto watch = client_watch::start();
  if (!watch) return report("eval", watch.error());
  eval_service service(usual);
  input_lines lines;
  write_line(greeting);
  while (const auto line = lines.next())
    if (!line->empty()) write_line(service.answer(*line));
  return done;
}

}  // namespace quern::tools
