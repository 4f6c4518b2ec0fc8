// Where a benchmark stands, as a terminal shows it among log lines.
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "tools/bench/progress.hpp"
#include "tools/bench_support.hpp"

using namespace quern;
using namespace quern::test;
using base::operator""_s;

namespace {

/// stderr is a pseudo-terminal as long as this lives.
class terminal_stderr {
 public:
  terminal_stderr() {
    master_.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!master_ || grantpt(master_.get()) != 0 || unlockpt(master_.get()) != 0) return;
    const base::unique_fd end(::open(ptsname(master_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (end) ready_ = ::dup2(end.get(), STDERR_FILENO) >= 0;
  }
  ~terminal_stderr() { ::dup2(before_.get(), STDERR_FILENO); }
  terminal_stderr(const terminal_stderr&) = delete;
  terminal_stderr& operator=(const terminal_stderr&) = delete;

  [[nodiscard]] bool ready() const { return ready_; }
  /// What was written, as far as `last`, which must have been.
  std::string read_to(std::string_view last) {
    std::string text;
    char piece[512];
    while (text.find(last) == std::string::npos) {
      const ssize_t count = ::read(master_.get(), piece, sizeof piece);
      if (count <= 0) break;
      text.append(piece, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  base::unique_fd before_{::dup(STDERR_FILENO)};
  base::unique_fd master_;
  bool ready_ = false;
};

}  // namespace

TEST_CASE("on a terminal no log line runs into where a benchmark stands") {
  base::manual_clock clock(5_s);
  const env::verdict ok = made_result("softmax_rows", "a", env::verdict_kind::ok, 150).verdict;
  std::string text;
  {
    terminal_stderr terminal;
    if (!terminal.ready()) return skip("this host lends no pseudo-terminal");
    tools::bench_progress progress(clock, 4, 0, 0);
    progress.add(ok);
    base::log_warn("evaluator", "a first warning");
    clock.advance(1_s);
    progress.add(ok);
    clock.advance(10_s);
    progress.add(ok);
    base::log_warn("evaluator", "a second warning");
    clock.advance(1_s);
    progress.add(ok);
    base::print_line("the end");
    text = terminal.read_to("the end\r\n");
  }
  // A terminal ends a line by these two; nothing else moves its cursor.
  std::vector<std::string> lines;
  for (std::size_t at = 0, end = 0; (end = text.find("\r\n", at)) != text.npos; at = end + 2)
    lines.push_back(text.substr(at, end - at));
  CAPTURE(text);
  REQUIRE(lines.size() == 6);
  CHECK(lines[0] == "quern bench: 1/4 judged, 1 ok");
  CHECK(lines[1].ends_with("warning evaluator: a first warning"));
  CHECK(lines[2] == "quern bench: 3/4 judged, 3 ok, 982 an hour, 3.7 s left");
  CHECK(lines[3].ends_with("warning evaluator: a second warning"));
  CHECK(lines[4] == "quern bench: 4/4 judged, 4 ok, 1200 an hour");
  for (const std::string& line : lines)
    CHECK(line.find_first_of("\r\x1b") == line.npos);
  for (const std::size_t warning : {1U, 3U})
    CHECK_FALSE(contains(lines[warning], "quern bench"));
}
