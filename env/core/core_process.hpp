// A process on a core that is checked and timed: what env/core asks of it.
#pragma once

#include "env/runner/link.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// One process that answers the questions of runner_link: `load`, `map`, `plan`, `run`, and
/// `workspace` where `load` said so. A lane implements it for how its candidates are started. It
/// serves one candidate and ends with this object. Thread-compatible.
class core_process {
 public:
  virtual ~core_process() = default;

  /// Its socket; owned by this object.
  [[nodiscard]] virtual runner_link& link() = 0;
  /// The sandbox's layers that were really put on.
  [[nodiscard]] virtual layer_set layers() const = 0;

  /// Whether a refusal to load or to run is what the candidate's own code said, an exception, and
  /// not what its runner thinks of the question.
  [[nodiscard]] virtual bool refusals_are_its_own() const { return false; }

  /// Whether a function that the candidate names may be missing, at address 0: it is linked with
  /// little, and a library of it is loaded with names that nothing defines.
  [[nodiscard]] virtual bool may_lack_functions() const { return true; }

  /// Ends it, if it still runs, and tells how it ended ("SIGSEGV", "exit status 0", ...). The same
  /// end is returned again.
  virtual child_end end() = 0;
};

}  // namespace quern::env
