// What a case writes to stderr, its log lines among it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "support/test.hpp"

namespace quern::test {

/// What is written to stderr in the life of this, a terminal or not.
class caught_stderr {
 public:
  explicit caught_stderr(const std::filesystem::path& file)
      : file_(file), before_(::dup(STDERR_FILENO)) {
    const base::unique_fd to(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ::dup2(to.get(), STDERR_FILENO);
  }
  std::vector<std::string> lines() {
    std::vector<std::string> all;
    std::string text = base::read_file(file_).value();
    CHECK(text.ends_with("\n"));
    CHECK(text.find('\r') == std::string::npos);
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      all.push_back(text.substr(0, end));
      text.erase(0, end + 1);
    }
    return all;
  }
  ~caught_stderr() { ::dup2(before_.get(), STDERR_FILENO); }
  caught_stderr(const caught_stderr&) = delete;
  caught_stderr& operator=(const caught_stderr&) = delete;

 private:
  std::filesystem::path file_;
  base::unique_fd before_;
};

}  // namespace quern::test
