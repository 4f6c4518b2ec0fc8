// What a suite allows its candidates: the switches of suite.yaml, as commands, jobs and evaluators
// pass them on.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"

namespace quern::env {

/// The defaults are the strict ones, but for host code, without which some lanes have nothing.
struct suite_policy {
  bool library_calls = false;    ///< candidates may call vendor libraries (on a GPU)
  bool lower_precision = false;  ///< results may be computed in a narrower type than the task's
  bool graphs = false;           ///< candidates may capture CUDA graphs
  bool host_entry =
      true;  ///< candidates may have host code of their own (some lanes have nothing else)
  /// Modules on a GPU are held to the first three by what a profile of a call shows. Off: nothing
  /// holds them to these, since their libraries are how they are written.
  bool by_evidence = false;
  friend bool operator==(const suite_policy&, const suite_policy&) = default;
};

/// The switches that are on, in the order above, with commas between: "graphs,host_entry"; "none".
std::string to_text(const suite_policy& policy);

/// What to_text() writes: everything that is not named is off. Error: an unknown switch, with the
/// nearest and all known ones.
base::expected<suite_policy> parse_suite_policy(std::string_view text);

/// `policy` with the switches of a list turned on or off. Same errors.
base::expected<suite_policy> with_switches(suite_policy policy, std::string_view list, bool on);

}  // namespace quern::env
