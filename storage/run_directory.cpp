#include "storage/run_directory.hpp"

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace quern::storage {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t run_format = 1;
/// It names every task of a suite.
constexpr std::size_t max_meta_bytes = std::size_t{64} << 20U;

base::status make_layout(const run_paths& paths) {
  for (const fs::path& folder : {paths.blobs(), paths.logs(), paths.checkpoints()}) {
    QUERN_CHECK(base::make_folders(folder));
  }
  return {};
}

/// Removes a folder that a killed process of this run left; only one that quern may have made.
void remove_left_over(const base::json& name) {
  if (!name.is_string()) return;
  const fs::path folder(name.get<std::string>());
  struct stat info {};
  if (!folder.filename().string().starts_with("quern") || ::lstat(folder.c_str(), &info) != 0 ||
      !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
    return;
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

/// Tells a run from its copy, whose lock is another file.
base::json identity_of(const fs::path& lock) {
  struct stat info {};
  if (::stat(lock.c_str(), &info) != 0) return {};
  return {{"device", static_cast<std::int64_t>(info.st_dev)},
          {"inode", static_cast<std::int64_t>(info.st_ino)}};
}

std::vector<fs::path> names_in(const fs::path& folder) {
  std::vector<fs::path> names;
  std::error_code code;
  for (auto at = fs::directory_iterator(folder, code); !code && at != fs::directory_iterator();
       at.increment(code)) {
    names.push_back(at->path().filename());
  }
  return names;
}

/// Something that `create` makes before meta.json: an empty folder, the lock, the configuration.
bool of_unfinished_creation(const run_paths& paths, const fs::path& name) {
  const fs::path full = paths.root / name;
  std::error_code code;
  for (const fs::path& folder : {paths.blobs(), paths.logs(), paths.checkpoints()}) {
    if (full == folder) return fs::is_directory(full, code) && fs::is_empty(full, code);
  }
  return full == paths.lock() || full == paths.config() ||
         name.string().starts_with(".config.yaml.") || name.string().starts_with(".meta.json.");
}

}  // namespace

base::status may_become_run(const fs::path& root) {
  std::error_code code;
  const run_paths paths{root};
  if (!fs::exists(root, code)) return {};
  bool free = fs::is_directory(root, code);
  if (free) {
    const auto names = names_in(root);
    free = std::all_of(names.begin(), names.end(),
                       [&](const fs::path& name) { return of_unfinished_creation(paths, name); });
    // A configuration alone is somebody's own; a creation makes the lock first.
    if (!names.empty() && !fs::exists(paths.lock(), code)) free = false;
  }
  if (free) return {};
  if (fs::exists(paths.meta(), code)) {
    return base::fail(base::errc::already_exists,
                      "{} is a run already: quern resume {}, or name another folder", root.string(),
                      root.string());
  }
  if (!fs::is_directory(root, code))
    return base::fail(base::errc::already_exists, "{} is there and no folder: name a new one",
                      root.string());
  return base::fail(base::errc::already_exists,
                    "{} is there and not empty, but no run: name a new folder, or empty it",
                    root.string());
}

base::expected<base::json> read_meta(const run_paths& paths) {
  const auto text = base::read_file(paths.meta(), max_meta_bytes);
  if (!text) {
    if (text.error().code != base::errc::not_found) return tl::make_unexpected(text.error());
    return base::fail(base::errc::not_found,
                      "{} is not a run directory (it has no meta.json): name the folder that "
                      "`quern train` made, or start a run",
                      paths.root.string());
  }
  const auto damaged = [&](const base::error& problem) {
    return base::fail(base::errc::corrupt,
                      "{} is damaged ({}): put it back from a copy of the run, or start a new run",
                      paths.meta().string(), problem.message);
  };
  auto meta = base::parse_json(*text);
  if (!meta) return damaged(meta.error());
  const auto format = base::get<std::int64_t>(*meta, "quern_run");
  if (!format) return damaged(format.error());
  if (*format != run_format) {
    return base::fail(base::errc::version,
                      "{} has format {}, this build reads format {}: use the build that made it{}",
                      paths.root.string(), *format, run_format,
                      meta->contains("build") ? " (" + base::dump((*meta)["build"]) + ")" : "");
  }
  return meta;
}

std::optional<std::string> recorded_config(const run_paths& paths) {
  const auto meta = read_meta(paths);
  if (!meta) return std::nullopt;
  const auto text = base::get<std::string>(*meta, "config");
  return text ? std::optional(*text) : std::nullopt;
}

run_directory::run_directory(run_paths paths, base::json meta, run_lock lock)
    : paths_(std::move(paths)), meta_(std::move(meta)), lock_(std::move(lock)) {}

run_directory::~run_directory() {
  std::error_code ignored;
  for (const fs::path& folder : owned_)
    fs::remove_all(folder, ignored);
}

base::expected<run_directory> run_directory::create(const fs::path& root,
                                                    std::string_view config_yaml, base::json meta) {
  QUERN_CHECK(may_become_run(root));
  if (!meta.is_object()) {
    return base::fail(base::errc::internal, "the description of a run must be an object");
  }
  std::error_code code;
  run_paths paths{fs::absolute(root)};
  const bool fresh = !fs::exists(paths.root, code);
  QUERN_CHECK(base::make_folders(paths.root));
  auto lock = run_lock::take(paths.lock());
  if (!lock) {
    if (fresh) fs::remove(paths.root, code);  // takes away an empty folder only
    return tl::make_unexpected(std::move(lock).error());
  }
  // Another process may have made a run of it before this one had the lock.
  QUERN_CHECK(may_become_run(paths.root));
  meta["quern_run"] = run_format;
  meta["created_ns"] = base::unix_time_ns();
  run_directory run(paths, std::move(meta), std::move(*lock));
  const auto fill = [&]() -> base::status {
    QUERN_CHECK(make_layout(paths));
    QUERN_CHECK(base::write_file_atomic(paths.config(), config_yaml));
    run.meta_["config"] = std::string(config_yaml);
    // meta.json, which makes a folder a run directory, comes last.
    return run.make_sockets();
  };
  if (auto filled = fill(); !filled) {
    for (const fs::path& name : names_in(paths.root))
      fs::remove_all(paths.root / name, code);
    if (fresh) fs::remove(paths.root, code);
    return tl::make_unexpected(std::move(filled).error());
  }
  return run;
}

base::expected<run_directory> run_directory::open(const fs::path& root) {
  run_paths paths{fs::absolute(root)};
  QUERN_TRY(base::json meta, read_meta(paths));
  QUERN_TRY(run_lock lock, run_lock::take(paths.lock()));
  QUERN_CHECK(make_layout(paths));
  // Nobody else holds the lock: who made these folders is dead, unless they are those of the run
  // that this one was copied from.
  if (meta.value("lock", base::json()) == identity_of(paths.lock())) {
    remove_left_over(meta.value("sockets", base::json()));
    for (const base::json& folder : meta.value("owned", base::json::array()))
      remove_left_over(folder);
  }
  meta.erase("owned");
  run_directory run(std::move(paths), std::move(meta), std::move(lock));
  QUERN_CHECK(run.make_sockets());
  return run;
}

base::status run_directory::own(const fs::path& folder) {
  owned_.push_back(folder);
  meta_["owned"].push_back(folder.string());
  return base::write_file_atomic(paths_.meta(), base::dump_pretty(meta_) + "\n");
}

base::status run_directory::make_sockets() {
  QUERN_TRY(auto folder, base::temp_folder::make("quern"));
  sockets_ = std::move(folder);
  meta_["sockets"] = sockets_->path().string();
  meta_["lock"] = identity_of(paths_.lock());
  return base::write_file_atomic(paths_.meta(), base::dump_pretty(meta_) + "\n");
}

base::status run_directory::write_config(std::string_view config_yaml) {
  QUERN_CHECK(base::write_file_atomic(paths_.config(), config_yaml));
  meta_["config"] = std::string(config_yaml);
  return base::write_file_atomic(paths_.meta(), base::dump_pretty(meta_) + "\n");
}

fs::path run_directory::sockets() const {
  return sockets_->path();
}

base::expected<std::string> run_directory::socket(std::string_view name) const {
  std::string full = (sockets_->path() / name).string();
  if (name.empty() || name.find('/') != std::string_view::npos || full.size() > max_socket_name) {
    return base::fail(base::errc::invalid_argument,
                      "'{}' cannot be a socket: its name has {} bytes, the limit is {}; set TMPDIR "
                      "to a shorter folder",
                      full, full.size(), max_socket_name);
  }
  return full;
}

}  // namespace quern::storage
