// Who may join a run: only processes that the run itself has started, of its build and its
// configuration.
#pragma once

#include <string>

#include "actors/messages.hpp"
#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// 128 random bits of Linux as text, which never stand in a command line, a log or a file.
/// Error: io.
base::expected<std::string> make_run_secret();

/// Not thread-safe.
class reception {
 public:
  reception() = default;
  /// `secret` is what processes of the run are given when they are started.
  reception(std::string build, base::hash128 config, std::string secret)
      : build_(std::move(build)), config_(config), secret_(std::move(secret)) {}

  /// Errors: conflict, for who does not know the secret, which is all that it learns; then
  /// for another build or configuration. No error names a secret.
  [[nodiscard]] base::status admit(const hello& from) const;

 private:
  std::string build_;
  base::hash128 config_;
  std::string secret_;
};

}  // namespace quern::actors
