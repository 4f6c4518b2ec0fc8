// Cases of a script that are written in Python, beside the test that runs them.
#pragma once

#include <string>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "support/test.hpp"

namespace quern::test {

/// Runs tests/tools/`name` with the tree and a folder of its own, and fails the calling test case
/// with what it printed, where it does not end well within `patience`.
inline void run_python_cases(const std::string& name, base::nanoseconds_t patience) {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const auto log = folder->path() / "log";
  auto child = base::subprocess::start(
      {.argv = {"/usr/bin/env", "python3", (source_dir() / "tests/tools" / name).string(),
                source_dir().string(), folder->path().string()},
       .log = log});
  REQUIRE(child);
  const auto end = child->wait(patience);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(end);
  CHECK(end->signal == 0);
  CHECK(end->code == 0);
}

}  // namespace quern::test
