// Log lines below the level are not written.
#include "base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;

namespace {

/// What a line of each level leaves on stderr.
std::string written() {
  const auto folder = base::temp_folder::make().value();
  const auto file = folder.path() / "log";
  const base::unique_fd before(::dup(STDERR_FILENO));
  const base::unique_fd to(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ::dup2(to.get(), STDERR_FILENO);
  base::log_debug("test", "{}", "first");
  base::log_info("test", "{}", "second");
  base::log_warn("test", "{}", "third");
  base::log_error("test", "{}", "fourth");
  ::dup2(before.get(), STDERR_FILENO);
  return base::read_file(file).value();
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a level is set by its name; another name changes nothing") {
  CHECK_FALSE(has(written(), "first"));
  CHECK(has(written(), "info test: second"));
  CHECK(base::set_log_level("error"));
  CHECK_FALSE(base::set_log_level("errors"));
  CHECK_FALSE(has(written(), "third"));
  CHECK(has(written(), "error test: fourth"));
  CHECK(base::set_log_level("debug"));
  CHECK(has(written(), "debug test: first"));
  CHECK(base::set_log_level("info"));
}
