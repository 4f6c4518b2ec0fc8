// Baselines as KernelBench keeps them: a JSON file of times, made once for each kind of machine.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.hpp"
#include "env/task/suite.hpp"

namespace quern::tools {

/// Largest file, and most entries in one.
inline constexpr std::size_t max_baselines_bytes = std::size_t{16} << 20U;
inline constexpr std::size_t max_baselines = 100'000;

struct kernelbench_baselines {
  std::string name;  ///< the file's, for people
  /// By level and the task's file there; ms.
  std::map<std::pair<int, std::string>, double> mean_ms;
  std::set<std::string> hardware;  ///< of all entries that name theirs

  /// Mean time of a task; nothing where the file does not have it.
  [[nodiscard]] std::optional<double> mean_of(const env::suite_member& member) const;
  /// The hardware in one text: "NVIDIA H100 80GB HBM3"; "hardware not named".
  [[nodiscard]] std::string hardware_text() const;
};

/// {"level1": {"<file>.py": {"mean": MS, "hardware": TEXT, ...}}}; other keys of an entry are left
/// out. `name` is what errors call the text. Errors (invalid_argument) name level, file and value:
/// a mean that is not above 0 and finite, a key that is no level, too many entries.
base::expected<kernelbench_baselines> parse_kernelbench_baselines(std::string_view text,
                                                                  std::string_view name);

/// The same from a file. Error, too: a file with none of the suite's tasks, or a suite whose tasks
/// have no place in KernelBench.
base::expected<kernelbench_baselines> read_kernelbench_baselines(const std::filesystem::path& path,
                                                                 const env::suite& suite);

}  // namespace quern::tools
