#include "storage/checkpoint.hpp"

#include <algorithm>

#include <fmt/ranges.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "storage/manifest.hpp"

namespace quern::storage {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view temporary_prefix = ".writing-";
constexpr std::string_view removed_prefix = ".removing-";
constexpr std::size_t max_manifest_bytes = 16U << 20U;

/// "v00000012" -> 12.
base::expected<std::int64_t> parse_name(std::string_view name) {
  std::int64_t version = 0;
  bool good = name.size() >= 9 && name.size() <= 18 && name[0] == 'v';
  for (std::size_t i = 1; good && i < name.size(); ++i) {
    good = name[i] >= '0' && name[i] <= '9';
    version = version * 10 + (name[i] - '0');
  }
  if (!good || fmt::format("v{:08}", version) != name) {
    return base::fail(base::errc::corrupt, "'{}' does not name a checkpoint", name.substr(0, 80));
  }
  return version;
}

/// A folder that is half deleted must not look like a checkpoint: first the name goes.
base::status remove_folder(const fs::path& folder) {
  std::error_code code;
  const fs::path doomed =
      folder.parent_path() / (std::string(removed_prefix) + folder.filename().string());
  fs::remove_all(doomed, code);
  fs::rename(folder, doomed, code);
  if (code) {
    return base::fail(base::errc::io, "cannot rename {}: {}", folder.string(), code.message());
  }
  QUERN_CHECK(base::sync_folder(folder.parent_path()));
  fs::remove_all(doomed, code);
  if (code) {
    return base::fail(base::errc::io, "cannot delete {}: {}", doomed.string(), code.message());
  }
  return {};
}

}  // namespace

fs::path checkpoint_store::folder_of(std::int64_t version) const {
  return folder_ / fmt::format("v{:08}", version);
}

base::expected<checkpoint> checkpoint_store::write(
    std::int64_t version, const std::function<base::status(const fs::path&)>& fill) {
  const fs::path home = folder_of(version);
  std::error_code code;
  if (fs::exists(home, code)) {
    return base::fail(base::errc::already_exists, "{} is there already", home.string());
  }
  const fs::path draft =
      folder_ / fmt::format("{}v{:08}-{}", temporary_prefix, version, ::getpid());
  fs::remove_all(draft, code);
  QUERN_CHECK(base::make_folders(draft));
  const auto written = [&]() -> base::expected<checkpoint> {
    QUERN_CHECK(fill(draft));
    QUERN_TRY(auto files, seal_files(draft));
    if (files.empty()) {
      return base::fail(base::errc::invalid_argument, "checkpoint {} has no file", version);
    }
    const std::string text = to_json(manifest{version, std::move(files)});
    QUERN_CHECK(base::write_file_atomic(draft / "MANIFEST.json", text));
    if (::rename(draft.c_str(), home.c_str()) != 0) {
      return base::fail_errno("cannot rename a checkpoint to " + home.string());
    }
    QUERN_CHECK(base::sync_folder(folder_));
    return checkpoint{version, home, base::xxh128(text)};
  }();
  if (!written) {
    fs::remove_all(draft, code);
    return base::in_context(fmt::format("writing checkpoint {}", version), written.error());
  }
  return written;
}

base::status checkpoint_store::point_latest_at(std::int64_t version) {
  return base::write_file_atomic(folder_ / "LATEST", folder_of(version).filename().string() + "\n");
}

base::status checkpoint_store::publish(std::int64_t version) {
  std::error_code code;
  if (!fs::is_directory(folder_of(version), code)) {
    return base::fail(base::errc::not_found, "{} is not there", folder_of(version).string());
  }
  QUERN_CHECK(point_latest_at(version));
  std::int64_t found = 0;
  for (const std::int64_t each : versions()) {
    if (each > version || ++found <= kept_ || each == held_) continue;
    QUERN_CHECK(remove_folder(folder_of(each)));
  }
  return {};
}

base::expected<checkpoint> checkpoint_store::verify(std::int64_t version) const {
  const fs::path home = folder_of(version);
  const fs::path file = home / "MANIFEST.json";
  std::error_code code;
  if (!fs::is_directory(home, code)) {
    return base::fail(base::errc::not_found, "{} is not there", home.string());
  }
  const auto text = base::read_file(file, max_manifest_bytes);
  if (!text) {
    return base::fail(base::errc::corrupt, "{}", text.error().message);
  }
  const auto parsed = parse_manifest(*text);
  if (!parsed) {
    const bool unknown = parsed.error().code == base::errc::version;
    return base::fail(unknown ? base::errc::version : base::errc::corrupt, "{}: {}", file.string(),
                      parsed.error().message);
  }
  if (parsed->version != version) {
    return base::fail(base::errc::corrupt, "{} says version {}", file.string(), parsed->version);
  }
  QUERN_CHECK(check_files(home, *parsed));
  return checkpoint{version, home, base::xxh128(*text)};
}

base::expected<checkpoint_choice> checkpoint_store::choose(
    const std::vector<std::int64_t>& candidates) const {
  checkpoint_choice choice;
  for (const std::int64_t version : candidates) {
    auto found = verify(version);
    if (found) {
      choice.chosen = std::move(*found);
      return choice;
    }
    choice.problems.push_back(std::move(found.error().message));
  }
  if (candidates.empty())
    return base::fail(base::errc::not_found, "there is no checkpoint in {}", folder_.string());
  return base::fail(base::errc::not_found,
                    "no checkpoint in {} can be used: {}; put its files back from a copy",
                    folder_.string(), fmt::join(choice.problems, "; "));
}

std::vector<std::int64_t> checkpoint_store::versions() const {
  std::vector<std::int64_t> found;
  std::error_code code;
  for (auto at = fs::directory_iterator(folder_, code); !code && at != fs::directory_iterator();
       at.increment(code)) {
    const auto version = parse_name(at->path().filename().string());
    if (version) found.push_back(*version);
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

base::expected<std::int64_t> checkpoint_store::latest() const {
  QUERN_TRY(const std::string text, base::read_file(folder_ / "LATEST", 256));
  auto version = parse_name(base::trim(text));
  if (!version) return base::in_context((folder_ / "LATEST").string(), version.error());
  return version;
}

base::expected<fs::path> checkpoint_store::set_aside(std::int64_t version) {
  const fs::path home = folder_of(version), aside = folder_ / "set_aside";
  QUERN_CHECK(base::make_folders(aside));
  const std::string name = home.filename().string();
  fs::path to = aside / name;
  std::error_code code;
  for (int copy = 2; fs::exists(to, code); ++copy)
    to = aside / fmt::format("{}-{}", name, copy);
  if (::rename(home.c_str(), to.c_str()) != 0)
    return base::fail_errno(fmt::format("cannot move {} to {}", home.string(), to.string()));
  QUERN_CHECK(base::sync_folder(aside));
  QUERN_CHECK(base::sync_folder(folder_));
  return to;
}

base::expected<std::vector<fs::path>> checkpoint_store::discard_above(std::int64_t version) {
  std::error_code code;
  std::vector<fs::path> leftovers;
  for (auto at = fs::directory_iterator(folder_, code); !code && at != fs::directory_iterator();
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(temporary_prefix) || name.starts_with(removed_prefix) ||
        name.starts_with(".LATEST.")) {
      leftovers.push_back(at->path());
    }
  }
  for (const fs::path& each : leftovers)
    fs::remove_all(each, code);
  std::vector<fs::path> moved;
  for (const std::int64_t each : versions()) {
    if (each <= version) continue;
    if (verify(each)) {
      QUERN_TRY(fs::path to, set_aside(each));
      moved.push_back(std::move(to));
    } else {
      QUERN_CHECK(remove_folder(folder_of(each)));
    }
  }
  // LATEST may name one that is gone now, or, after a crash, not yet the newest.
  const auto left = versions();
  if (left.empty()) {
    fs::remove(folder_ / "LATEST", code);
  } else {
    QUERN_CHECK(point_latest_at(left.front()));
  }
  return moved;
}

}  // namespace quern::storage
