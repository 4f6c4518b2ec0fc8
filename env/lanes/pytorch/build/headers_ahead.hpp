// LibTorch's headers of C++ files by the slim route, precompiled once for all of them.
#pragma once

#include <filesystem>
#include <stop_token>
#include <thread>

#include "base/file.hpp"
#include "base/status.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// Has the compiler make what precompile_script() says, by a thread of its own. It is kept for all
/// processes that name the same folder. That takes some ten seconds of three cores, and three
/// quarters of a gigabyte, once. Until then, and where it cannot be had, each compiler reads the
/// headers.
class headers_ahead {
 public:
  /// `spec`: of a tool's child that runs the script; its work folder is a file system of its own
  /// (layer mountns). `folder`: is there, and no other text or compiler has it. Folders beside it
  /// are of other ones. Those that no process has and nobody has used for a month may go, and all
  /// but the last few. `children` outlives this object.
  headers_ahead(spawner& children, child_spec spec, std::filesystem::path folder);
  /// Ends what it has begun.
  ~headers_ahead() = default;
  headers_ahead(const headers_ahead&) = delete;
  headers_ahead& operator=(const headers_ahead&) = delete;

  /// Waits until they are there. Error: why they are not. One thread at a time.
  base::status wait();

 private:
  /// Finds them, or waits for whoever makes them, or makes them.
  base::status make(const std::stop_token& over);
  /// Runs the script and keeps what it made.
  base::status run(const std::stop_token& over);

  spawner& children_;
  child_spec spec_;
  std::filesystem::path folder_;
  /// Held for as long as this process may use the folder.
  base::unique_fd lock_;
  /// How it went. Read when the thread has ended.
  base::status made_;
  // The last: it uses the others.
  std::jthread maker_;
};

}  // namespace quern::env
