// A table of times of references in KernelBench's form, and what all of its times share.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "env/task/reference_timer.hpp"

namespace quern::tools {

/// Name of the file in which KernelBench keeps times of a mode: "baseline_time_torch.json".
std::string baseline_file_name(env::reference_mode mode);

/// One reference: milliseconds to three significant digits, and on what.
struct baseline_row {
  double mean = 0, deviation = 0, least = 0, largest = 0;
  std::int64_t trials = 0;
  std::string hardware, device;
  friend bool operator==(const baseline_row&, const baseline_row&) = default;
};

/// Statistics of calls, as KernelBench makes them; `times_ns` has at least one.
baseline_row row_of_times(const std::vector<std::int64_t>& times_ns, std::string hardware,
                          std::string device);

/// Rows by level and file; text in the bytes of KernelBench's tables.
class baseline_table {
 public:
  /// Errors (invalid_argument) name what is no table, or which row lacks what.
  static base::expected<baseline_table> parse(std::string_view text, std::string_view name);
  [[nodiscard]] std::string text() const;

  [[nodiscard]] bool has(int level, const std::string& file) const;
  void add(int level, const std::string& file, baseline_row row);
  [[nodiscard]] std::size_t size() const { return rows_.size(); }

 private:
  /// Files of a level are in the order of their numbers.
  struct place {
    int level = 0;
    std::int64_t number = 0;
    std::string file;
    friend auto operator<=>(const place&, const place&) = default;
  };
  static place place_of(int level, const std::string& file);
  std::map<place, baseline_row> rows_;
};

/// A task that has no row, and why no host of the device class can make one.
struct left_out_task {
  int level = 0;
  std::string file, reason;
  friend bool operator==(const left_out_task&, const left_out_task&) = default;
};

/// What times must share to stand in one table. It is kept in a file beside it, since KernelBench's
/// form has no place for it.
struct baseline_terms {
  std::string mode, precision, hardware, device, device_class, settings;
  std::int64_t warm_up = 0, trials = 0, budget_ms = 0;
  friend bool operator==(const baseline_terms&, const baseline_terms&) = default;
};

base::ordered_json to_json(const baseline_terms& terms, const std::vector<left_out_task>& left_out);
/// Left-out tasks are not read: they are tried again. Errors name what is missing.
base::expected<baseline_terms> terms_from_json(const base::json& value);

/// Nothing where times under `there` and `now` may stand in one table; else invalid_argument with
/// what differs, both values and what to do.
base::status check_same_terms(const baseline_terms& there, const baseline_terms& now);

}  // namespace quern::tools
