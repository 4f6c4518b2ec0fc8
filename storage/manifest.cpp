#include "storage/manifest.hpp"

#include <algorithm>
#include <memory>
#include <set>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.hpp"
#include "base/json.hpp"

namespace quern::storage {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t checkpoint_format = 1;

bool stays_inside(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos || path.back() == '/') return false;
  const fs::path parsed(path);
  if (parsed.is_absolute() || parsed.lexically_normal().native() != path) return false;
  return *parsed.begin() != ".." && *parsed.begin() != ".";
}

base::expected<manifest_file> parse_file(const base::json& entry) {
  manifest_file file;
  QUERN_TRY(file.path, base::get<std::string>(entry, "path"));
  QUERN_TRY(file.size, base::get<std::uint64_t>(entry, "size"));
  QUERN_TRY(const std::string hash, base::get<std::string>(entry, "xxh128"));
  QUERN_TRY(file.hash, base::parse_hash(hash));
  if (!stays_inside(file.path)) {
    return base::fail(base::errc::invalid_argument, "'{}' is not a path inside the checkpoint",
                      file.path.substr(0, 200));
  }
  return file;
}

/// Every file below `folder` but the manifest; links, sockets and the like are refused.
base::expected<std::vector<std::string>> list_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (auto at = fs::recursive_directory_iterator(folder, code);
       !code && at != fs::recursive_directory_iterator(); at.increment(code)) {
    const fs::file_status status = at->symlink_status(code);
    if (code) break;
    if (fs::is_directory(status)) continue;
    const std::string name = at->path().lexically_relative(folder).generic_string();
    if (!fs::is_regular_file(status)) {
      return base::fail(base::errc::corrupt, "{} is not a regular file", at->path().string());
    }
    if (name != "MANIFEST.json") names.push_back(name);
  }
  if (code) {
    return base::fail(base::errc::io, "cannot list {}: {}", folder.string(), code.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// What is wrong with a file; empty: nothing. Error: the system does not tell.
base::expected<std::string> problem_of(const fs::path& path, const manifest_file& expected) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    // ENOTDIR: what should be its folder is a file.
    if (errno == ENOENT || errno == ENOTDIR) return path.string() + " is missing";
    return base::fail_errno("cannot look at " + path.string());
  }
  if (!S_ISREG(info.st_mode)) return path.string() + " is not a regular file";
  if (static_cast<std::uint64_t>(info.st_size) != expected.size)
    return fmt::format("{} has {} bytes, its manifest says {}", path.string(), info.st_size,
                       expected.size);
  QUERN_TRY(const base::hash128 hash, hash_file(path));
  if (hash == expected.hash) return std::string();
  return path.string() + " has another content than its manifest says";
}

/// Whatever is below `from` and no folder, by its path from `root`; as far as it can be listed.
std::vector<std::string> names_below(const fs::path& from, const fs::path& root) {
  std::vector<std::string> names;
  std::error_code code;
  for (auto at = fs::recursive_directory_iterator(
           from, fs::directory_options::skip_permission_denied, code);
       !code && at != fs::recursive_directory_iterator(); at.increment(code)) {
    std::error_code ignored;
    if (!fs::is_directory(at->symlink_status(ignored)))
      names.push_back(at->path().lexically_relative(root).generic_string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

base::status sync_tree(const fs::path& folder) {
  std::error_code code;
  for (auto at = fs::recursive_directory_iterator(folder, code);
       !code && at != fs::recursive_directory_iterator(); at.increment(code)) {
    if (fs::is_directory(at->symlink_status())) QUERN_CHECK(base::sync_folder(at->path()));
  }
  return base::sync_folder(folder);
}

}  // namespace

std::string to_json(const manifest& value) {
  base::ordered_json files = base::ordered_json::array();
  for (const manifest_file& file : value.files) {
    files.push_back(
        {{"path", file.path}, {"size", file.size}, {"xxh128", base::to_hex(file.hash)}});
  }
  base::ordered_json object;
  object["quern_checkpoint"] = checkpoint_format;
  object["version"] = value.version;
  object["files"] = std::move(files);
  return base::dump_pretty(object) + "\n";
}

base::expected<manifest> parse_manifest(std::string_view text) {
  QUERN_TRY(const base::json object, base::parse_json(text, 8));
  QUERN_TRY(const std::int64_t format, base::get<std::int64_t>(object, "quern_checkpoint"));
  if (format != checkpoint_format) {
    return base::fail(base::errc::version,
                      "a checkpoint of format {}, this build reads format {}: use the build that "
                      "wrote it",
                      format, checkpoint_format);
  }
  manifest value;
  QUERN_TRY(value.version, base::get<std::int64_t>(object, "version"));
  if (value.version < 0) {
    return base::fail(base::errc::invalid_argument, "version {} of weights", value.version);
  }
  const auto files = object.find("files");
  if (files == object.end() || !files->is_array() || files->empty()) {
    return base::fail(base::errc::invalid_argument, "'files' must be a list that is not empty");
  }
  std::set<std::string> seen;
  for (const base::json& entry : *files) {
    QUERN_TRY(manifest_file file, parse_file(entry));
    if (!seen.insert(file.path).second) {
      return base::fail(base::errc::invalid_argument, "'{}' is listed twice", file.path);
    }
    value.files.push_back(std::move(file));
  }
  return value;
}

base::expected<base::hash128> hash_file(const fs::path& path) {
  const base::unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return base::fail_errno("cannot open " + path.string());
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::string buffer(std::size_t{1} << 20U, '\0');
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::fail_errno("cannot read " + path.string());
    if (count == 0) break;
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<std::size_t>(count));
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(state.get());
  return base::hash128{digest.high64, digest.low64};
}

base::expected<std::vector<manifest_file>> seal_files(const fs::path& folder) {
  QUERN_TRY(const auto names, list_files(folder));
  std::vector<manifest_file> files;
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    const base::unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return base::fail_errno("cannot open " + path.string());
    if (::fsync(file.get()) != 0) return base::fail_errno("cannot sync " + path.string());
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) return base::fail_errno("cannot look at " + path.string());
    QUERN_TRY(const base::hash128 hash, hash_file(path));
    files.push_back({name, static_cast<std::uint64_t>(info.st_size), hash});
  }
  QUERN_CHECK(sync_tree(folder));
  return files;
}

bool lies_in(std::string_view path, std::string_view part) {
  return part.empty() ||
         (path.size() > part.size() && path.starts_with(part) && path[part.size()] == '/');
}

base::expected<found_files> check_files(const fs::path& folder, const manifest& expected,
                                        std::string_view part) {
  found_files found;
  std::set<std::string> named = {"MANIFEST.json"};
  for (const manifest_file& file : expected.files) {
    named.insert(file.path);
    if (!lies_in(file.path, part)) continue;
    QUERN_TRY(std::string problem, problem_of(folder / file.path, file));
    if (!problem.empty()) found.damaged.push_back({file.path, std::move(problem)});
  }
  // What the manifest names is known by now: a folder of strays that cannot be listed is no error.
  for (std::string& name : names_below(folder / part, folder))
    if (named.count(name) == 0) found.strays.push_back(std::move(name));
  return found;
}

}  // namespace quern::storage
