// `quern status / pause / stop RUN` while the run is going: a Unix socket in the run's private
// folder, one line of JSON each way.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/messages.hpp"
#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// What a process that runs a run can be asked.
struct console_commands {
  /// Reply to `quern status`; has "progress" (a line for people) and "verdicts" (counts by kind).
  std::function<base::json()> status;
  /// `quern pause` and `quern stop`: asks, does not wait. How the run ends: as it was asked first.
  std::function<ending(ending)> end;
};

/// Serves requests in a thread of its own until destroyed.
class console {
 public:
  /// `commands` are called from the console's thread, one at a time; what they refer to outlives
  /// the console.
  static base::expected<std::unique_ptr<console>> serve(const std::string& socket_path,
                                                        console_commands commands);
  ~console();

 private:
  struct state;
  explicit console(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

/// One request to a running control process. Errors: unavailable (nobody listens), timeout.
base::expected<base::json> ask_console(const std::string& socket_path, const base::json& request);

}  // namespace quern::actors
