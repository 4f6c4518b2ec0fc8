#include "storage/checkpoint.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "storage/manifest.hpp"

namespace quern::storage {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view temporary_prefix = ".writing-";
constexpr std::string_view removed_prefix = ".removing-";

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

/// A checkpoint of which nothing is known may be whole.
tl::unexpected<base::error> cannot_tell(const fs::path& folder, base::error why) {
  const std::string_view first = why.code == base::errc::version ? "" : "mend that and go on, or ";
  why.message = fmt::format(
      "it cannot be told whether {} is whole: {}; nothing was changed: {}move the folder to "
      "another place to go on from an older checkpoint",
      folder.string(), why.message, first);
  return tl::make_unexpected(std::move(why));
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
  QUERN_TRY(const auto there, list());
  std::int64_t found = 0;
  for (const std::int64_t each : there) {
    if (each > version || ++found <= kept_ || each == held_) continue;
    QUERN_CHECK(remove_folder(folder_of(each)));
  }
  return {};
}

base::expected<checkpoint> checkpoint_store::verify(std::int64_t version) const {
  const fs::path home = folder_of(version);
  QUERN_TRY(const checkpoint_check found, check_checkpoint(home));
  if (!found.whole()) return base::fail(base::errc::corrupt, "{}", found.damage());
  return checkpoint{version, home, found.hash};
}

base::expected<checkpoint_choice> checkpoint_store::choose(
    const std::vector<std::int64_t>& candidates, std::string_view part) const {
  checkpoint_choice choice;
  unusable_checkpoints passed{{}, 0, kept_};
  std::int64_t rank = 0;
  for (const std::int64_t version : candidates) {
    const bool expected = ++rank <= kept_ || version == held_;
    const fs::path home = folder_of(version);
    auto found = check_checkpoint(home, part);
    if (found && found->whole()) {
      choice.chosen = {version, home, found->hash};
      choice.strays = std::move(found->strays);
      choice.problems = std::move(passed.problems);
      return choice;
    }
    if (!found && found.error().code != base::errc::not_found)
      return cannot_tell(home, std::move(found).error());
    if (!found && !expected) {
      ++passed.deleted;
      continue;
    }
    passed.problems.push_back(found ? found->damage() : std::move(found).error().message);
  }
  if (candidates.empty())
    return base::fail(base::errc::not_found, "there is no checkpoint in {}", folder_.string());
  return base::fail(base::errc::not_found, "{}", unusable_text(folder_, passed));
}

base::expected<std::vector<std::int64_t>> checkpoint_store::list() const {
  std::vector<std::int64_t> found;
  std::error_code code;
  for (auto at = fs::directory_iterator(folder_, code); !code && at != fs::directory_iterator();
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    const auto version = version_in_name(name);
    if (version && folder_of(*version).filename() == name) found.push_back(*version);
  }
  if (code && code != std::errc::no_such_file_or_directory) {
    errno = code.value();
    return base::fail_errno("cannot list " + folder_.string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

base::expected<std::vector<std::int64_t>> checkpoint_store::known() const {
  QUERN_TRY(auto versions, list());
  const auto newest = latest();
  if (newest && (versions.empty() || *newest > versions.front()))
    versions.insert(versions.begin(), *newest);
  return versions;
}

base::expected<std::int64_t> checkpoint_store::latest() const {
  QUERN_TRY(const std::string text, base::read_file(folder_ / "LATEST", 256));
  const std::string_view name = base::trim(text);
  const auto version = version_in_name(name);
  if (!version || folder_of(*version).filename() != name)
    return base::fail(base::errc::corrupt, "{}: '{}' does not name a checkpoint",
                      (folder_ / "LATEST").string(), name.substr(0, 80));
  return *version;
}

base::expected<set_aside_checkpoint> checkpoint_store::what_is_left(std::int64_t version) const {
  using model_is = set_aside_checkpoint::model_is;
  set_aside_checkpoint left;
  left.folder = folder_of(version);
  const auto found = check_checkpoint(left.folder);
  if (!found) {
    // The others are the system's: it may read more of it another time.
    const base::errc code = found.error().code;
    if (code != base::errc::version && code != base::errc::not_found)
      return cannot_tell(left.folder, found.error());
    left.damage = found.error().message;
    left.model = model_is::unknown;
    return left;
  }
  left.damage = found->damage();
  if (!found->files)
    left.model = model_is::unknown;
  else if (!found->holds(model_part))
    left.model = model_is::damaged;
  return left;
}

base::status checkpoint_store::set_aside(fs::path& folder) {
  const fs::path aside = folder_ / "set_aside", name = folder.filename();
  QUERN_CHECK(base::make_folders(aside));
  fs::path to = aside / name;
  std::error_code code;
  for (int copy = 2; fs::exists(to, code); ++copy)
    to = aside / fmt::format("{}-{}", name.string(), copy);
  if (::rename(folder.c_str(), to.c_str()) != 0)
    return base::fail_errno(fmt::format("cannot move {} to {}", folder.string(), to.string()));
  QUERN_CHECK(base::sync_folder(aside));
  QUERN_CHECK(base::sync_folder(folder_));
  folder = to;
  return {};
}

base::expected<std::vector<set_aside_checkpoint>> checkpoint_store::set_aside_above(
    std::int64_t version) {
  QUERN_TRY(const auto there, list());
  // What cannot be read ends this before anything is changed.
  std::vector<set_aside_checkpoint> newer;
  const auto kept =
      std::find_if(there.begin(), there.end(), [&](std::int64_t each) { return each <= version; });
  for (auto each = there.begin(); each != kept; ++each) {
    QUERN_TRY(set_aside_checkpoint left, what_is_left(*each));
    newer.push_back(std::move(left));
  }
  delete_drafts();
  for (set_aside_checkpoint& each : newer)
    QUERN_CHECK(set_aside(each.folder));
  // LATEST may name one that is gone now, or, after a crash, not yet the newest.
  if (kept != there.end()) {
    QUERN_CHECK(point_latest_at(*kept));
  } else {
    std::error_code ignored;
    fs::remove(folder_ / "LATEST", ignored);
  }
  return newer;
}

void checkpoint_store::delete_drafts() {
  std::error_code code;
  std::vector<fs::path> drafts;
  for (auto at = fs::directory_iterator(folder_, code); !code && at != fs::directory_iterator();
       at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(temporary_prefix) || name.starts_with(removed_prefix) ||
        name.starts_with(".LATEST."))
      drafts.push_back(at->path());
  }
  for (const fs::path& each : drafts)
    fs::remove_all(each, code);
}

}  // namespace quern::storage
