// `quern status / pause / stop RUN` while the run is going: a Unix socket in the run's private
// folder, one line of JSON each way.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Serves requests in a thread of its own until destroyed.
class console {
 public:
  /// `answer` gets a request object {"command": ...} and gives the reply; called from the console's
  /// thread, one at a time.
  static base::expected<std::unique_ptr<console>> serve(
      const std::string& socket_path, std::function<base::json(const base::json&)> answer);
  ~console();

 private:
  struct state;
  explicit console(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

/// One request to a running control process. Errors: unavailable (nobody listens), timeout.
base::expected<base::json> ask_console(const std::string& socket_path, const base::json& request);

}  // namespace quern::actors
