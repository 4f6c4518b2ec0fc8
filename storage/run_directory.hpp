// The run directory: where everything of a run lies, and who may touch it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/run_lock.hpp"

namespace quern::storage {

/// Longest name of a Unix socket, without the final zero (sun_path has 108 bytes).
inline constexpr std::size_t max_socket_name = 107;

/// Paths below one run directory; touches nothing.
struct run_paths {
  std::filesystem::path root;

  [[nodiscard]] std::filesystem::path config() const { return root / "config.yaml"; }
  [[nodiscard]] std::filesystem::path meta() const { return root / "meta.json"; }
  [[nodiscard]] std::filesystem::path lock() const { return root / "LOCK"; }
  [[nodiscard]] std::filesystem::path database() const { return root / "run.db"; }
  [[nodiscard]] std::filesystem::path blobs() const { return root / "blobs"; }
  [[nodiscard]] std::filesystem::path metrics() const { return root / "metrics.jsonl"; }
  /// Event files of TensorBoard.
  [[nodiscard]] std::filesystem::path tensorboard() const { return root / "tb"; }
  /// The recorded completions that the run plays (policy.engine).
  [[nodiscard]] std::filesystem::path recorded() const { return root / "recorded.jsonl"; }
  [[nodiscard]] std::filesystem::path logs() const { return root / "logs"; }
  [[nodiscard]] std::filesystem::path report() const { return root / "report.txt"; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return root / "checkpoints"; }
  [[nodiscard]] std::filesystem::path log_of(std::string_view role) const {
    return logs() / (std::string(role) + ".log");
  }
};

/// A run directory that this process holds the lock of.
class run_directory {
 public:
  /// Makes the folder, writes config.yaml, then meta.json: the given object plus `quern_run: 1`,
  /// `created_ns`, `config`, `lock` and `sockets`. Takes the lock. The folder must not be there, be
  /// empty, or hold no more than a creation that was interrupted leaves; what fails here leaves
  /// nothing behind.
  static base::expected<run_directory> create(const std::filesystem::path& root,
                                              std::string_view config_yaml, base::json meta);

  /// Takes the lock of an existing run, removes what a killed process left outside of it, and gives
  /// it a fresh socket folder. A copy of a run (its lock is another file) leaves alone what the
  /// original has. `not_found`: not a run directory; `conflict`: locked; `version`:
  /// made by another format.
  static base::expected<run_directory> open(const std::filesystem::path& root);

  run_directory(run_directory&&) noexcept = default;
  run_directory& operator=(run_directory&&) noexcept = default;
  /// Removes the socket folder and owned folders and frees the lock.
  ~run_directory();

  [[nodiscard]] const run_paths& paths() const { return paths_; }
  [[nodiscard]] const base::json& meta() const { return meta_; }
  [[nodiscard]] run_lock& lock() { return *lock_; }

  /// RUN/config.yaml, replaced whole: a resume may change keys. meta.json keeps the text, too, as
  /// `config`, so that what a person changes in the file can be told.
  base::status write_config(std::string_view config_yaml);

  /// A private folder (mode 0700) outside the run directory, whose path may be too long.
  [[nodiscard]] std::filesystem::path sockets() const;
  /// Name of a socket in it, or an error that names the 107 bytes.
  [[nodiscard]] base::expected<std::string> socket(std::string_view name) const;

  /// A folder outside the run directory (weights in shared memory) becomes the run's: it is removed
  /// with this object, or, after a kill, by the next one that opens the run.
  base::status own(const std::filesystem::path& folder);

 private:
  run_directory(run_paths paths, base::json meta, run_lock lock);
  base::status make_sockets();

  run_paths paths_;
  base::json meta_;
  std::optional<run_lock> lock_;
  std::optional<base::temp_folder> sockets_;
  std::vector<std::filesystem::path> owned_;
};

/// What `create` asks of a folder, changing nothing. Errors: already_exists.
base::status may_become_run(const std::filesystem::path& root);

/// meta.json of a run, for readers (`quern status`): needs no lock.
base::expected<base::json> read_meta(const run_paths& paths);

/// The configuration that the run was begun or last gone on with, whatever config.yaml says now;
/// none in runs of builds that did not keep it.
std::optional<std::string> recorded_config(const run_paths& paths);

}  // namespace quern::storage
