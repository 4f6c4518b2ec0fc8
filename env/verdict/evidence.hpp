// How a candidate got its result: what a profile of one of its calls shows. Told by a process that
// runs the candidate, so it may be forged: for reports, and for a suite's policy.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::env {

/// Launches of one kernel by one call.
struct kernel_time {
  std::string name;  ///< demangled, cut to max_kernel_name bytes
  std::string kind;  ///< whose it is, by its name (docs/formats/verdict.md)
  std::int64_t count = 0;
  std::int64_t ns = 0;  ///< of all launches together
  friend bool operator==(const kernel_time&, const kernel_time&) = default;
};

/// What is absent or empty was not seen, or is not known.
struct evidence_report {
  /// Why kernels, precision and graphs are not known; empty: they are.
  std::string unknown;
  std::int64_t device_ns = 0;        ///< of all kernels of a call
  std::vector<kernel_time> kernels;  ///< the longest, in this order; at most max_kernels
  std::map<std::string, std::int64_t, std::less<>> ns_by_kind;  ///< of all kernels
  std::vector<std::string> lower_precision;  ///< narrower types than the task's: "tf32", "bf16"
  std::optional<bool> graphs;                ///< whether a call replays CUDA graphs
  std::optional<bool> aliases_output;        ///< two calls return the same memory
  std::optional<std::int64_t> late_builds;   ///< extensions that were first loaded in a call
  /// Least time of the task on this device over the measured time, x 10,000: by the evaluator.
  std::optional<std::int64_t> roofline_e4;
  friend bool operator==(const evidence_report&, const evidence_report&) = default;
};

inline constexpr std::size_t max_kernels = 16;
inline constexpr std::size_t max_kernel_name = 256;
/// The kind of kernels that are the candidate's own.
inline constexpr std::string_view own_kernels = "own";

/// Share of a kind in the device time; none where that is not known.
std::optional<double> share_of(const evidence_report& what, std::string_view kind);

base::json to_json(const evidence_report& what);
/// Error: invalid_argument, naming the key.
base::expected<evidence_report> evidence_from_json(const base::json& value);

/// A few lines for a person.
std::string evidence_text(const evidence_report& what);

}  // namespace quern::env
