// What `quern baselines` does: times the references of a suite, a table a mode, and goes on after a
// kill.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/task/reference_timer.hpp"
#include "env/task/suite.hpp"
#include "tools/bench/baseline_table.hpp"

namespace quern::tools {

/// The modes that a list with commas names, each once, in its order. Errors: no mode of that name,
/// with those there are; the same twice.
base::expected<std::vector<env::reference_mode>> parse_modes(std::string_view list);

/// Nothing where the timer has all of `modes`. Error (invalid_argument): every one that it has not,
/// by name and with the reason.
base::status check_modes(const env::reference_timer& timer,
                         const std::vector<env::reference_mode>& modes);

/// Where the table of a mode is kept: the file `out` where it ends in .json, which one mode alone
/// can have, else a file with KernelBench's name in the folder `out`.
base::expected<std::filesystem::path> baseline_path(const std::string& out,
                                                    env::reference_mode mode, std::size_t modes);

/// A table on disk, and its terms beside it: NAME.json and NAME.about.json. One process a file.
class baseline_file {
 public:
  /// Reads what is there, changes nothing. Errors: a table that is none, that has no terms beside
  /// it (it is not from quern), or other ones.
  static base::expected<baseline_file> open(std::filesystem::path path, baseline_terms terms);

  [[nodiscard]] const baseline_table& table() const { return table_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const baseline_terms& terms() const { return terms_; }
  /// Writes the terms, with the tasks that are known to be left out. Before the first row.
  base::status write_terms(const std::vector<left_out_task>& left_out) const;
  /// Whole or not at all on the disk, and there on return.
  base::status add(int level, const std::string& file, baseline_row row);

 private:
  baseline_file(std::filesystem::path path, baseline_terms terms, baseline_table table)
      : path_(std::move(path)), terms_(std::move(terms)), table_(std::move(table)) {}
  [[nodiscard]] std::filesystem::path terms_path() const;

  std::filesystem::path path_;
  baseline_terms terms_;
  baseline_table table_;
};

/// A task that could not be timed although this device class could: its reference fails, or the
/// host does.
struct failed_reference {
  std::string task, why;
};

struct baselines_end {
  std::int64_t tasks = 0, kept = 0, measured = 0;  ///< kept: were in the table before
  std::vector<left_out_task> left_out;
  std::vector<failed_reference> failed;
  bool stopped = false;
};

/// Told after each task that was not kept: "3/29 level1 FILE: 12.3 ms (100 calls)".
using tell_reference = std::function<void(std::string line)>;

/// Times every member of `suite` that the table does not have, in the suite's order; ends behind
/// the one being timed once `stop` is set. Every member has a place (suite_places::check_all).
/// Error: a file that cannot be written.
base::expected<baselines_end> measure_baselines(env::reference_timer& timer,
                                                env::reference_mode mode, const env::suite& suite,
                                                const env::reference_trials& rule,
                                                baseline_file& file, const std::atomic<bool>& stop,
                                                const tell_reference& tell);

/// For a person: what is in the table, what was left out and why, what failed.
std::string summary_of(const baselines_end& end, const baseline_file& file);

}  // namespace quern::tools
