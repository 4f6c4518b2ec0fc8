#include "storage/checkpoint_check.hpp"

#include <algorithm>

#include <sys/stat.h>

#include "base/file.hpp"

namespace quern::storage {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t max_manifest_bytes = 16U << 20U;
constexpr const char* manifest_name = "MANIFEST.json";

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char each) { return each >= '0' && each <= '9'; });
}

base::status check_folder(const fs::path& folder) {
  struct stat info {};
  const bool there = ::stat(folder.c_str(), &info) == 0;
  if (!there && errno != ENOENT && errno != ENOTDIR)
    return base::fail_errno("cannot look at " + folder.string());
  if (!there || !S_ISDIR(info.st_mode))
    return base::fail(base::errc::not_found, "{} is not there", folder.string());
  return {};
}

/// What is wrong with MANIFEST.json; empty: it is in `check`. Error: the system does not tell, or
/// the format is of another build.
base::expected<std::string> read_manifest(const fs::path& folder, checkpoint_check& check) {
  const fs::path file = folder / manifest_name;
  const auto text = base::read_file(file, max_manifest_bytes);
  if (!text) {
    const base::errc code = text.error().code;
    // It is not there, is a folder, or is too large to be one.
    if (code == base::errc::not_found || code == base::errc::invalid_argument)
      return text.error().message;
    return tl::make_unexpected(text.error());
  }
  auto parsed = parse_manifest(*text);
  if (!parsed) {
    if (parsed.error().code == base::errc::version)
      return base::in_context(file.string(), parsed.error());
    return fmt::format("{}: {}", file.string(), parsed.error().message);
  }
  if (parsed->version != check.version)
    return fmt::format("{} says version {}", file.string(), parsed->version);
  check.hash = base::xxh128(*text);
  check.files = std::move(*parsed);
  return std::string();
}

}  // namespace

std::optional<std::int64_t> version_in_name(std::string_view name) {
  std::string_view number = name.substr(0, name.find('-'));
  if (number.size() < name.size() && !is_number(name.substr(number.size() + 1))) return {};
  if (number.size() < 9 || number.size() > 18 || number[0] != 'v') return {};
  number.remove_prefix(1);
  if (!is_number(number)) return {};
  std::int64_t version = 0;
  for (const char digit : number)
    version = version * 10 + (digit - '0');
  if (fmt::format("{:08}", version) != number) return {};
  return version;
}

bool checkpoint_check::holds(std::string_view part) const {
  const auto inside = [&](const auto& file) { return lies_in(file.path, part); };
  return files && std::any_of(files->files.begin(), files->files.end(), inside) &&
         std::none_of(damaged.begin(), damaged.end(), inside);
}

std::string checkpoint_check::damage() const {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t at = 0; at < std::min(most, damaged.size()); ++at)
    text += (at == 0 ? "" : "; ") + damaged[at].problem;
  if (damaged.size() > most) text += fmt::format("; {} more files", damaged.size() - most);
  return text;
}

base::expected<checkpoint_check> check_checkpoint(const fs::path& folder, std::string_view part) {
  QUERN_CHECK(check_folder(folder));
  checkpoint_check check;
  check.version = version_in_name(folder.filename().string()).value_or(-1);
  QUERN_TRY(std::string problem, read_manifest(folder, check));
  if (!problem.empty()) {
    check.damaged.push_back({manifest_name, std::move(problem)});
    return check;
  }
  QUERN_TRY(auto found, check_files(folder, *check.files, part));
  check.damaged = std::move(found.damaged);
  for (const std::string& stray : found.strays)
    check.strays.push_back(folder / stray);
  if (check.damaged.empty() && !check.holds(part))
    check.damaged.push_back(
        {std::string(part),
         fmt::format("{} lists no file in {}", (folder / manifest_name).string(), part)});
  return check;
}

std::string unusable_text(const fs::path& folder, const unusable_checkpoints& none) {
  constexpr std::size_t most = 3;
  const auto counted = [](std::int64_t count, std::string_view which) {
    return fmt::format("{} {} {}", count, which, count == 1 ? "checkpoint" : "checkpoints");
  };
  std::string text = fmt::format(
      "no checkpoint in {} can be used: put the files of one back from a copy of the run",
      folder.string());
  const std::size_t shown = std::min(most, none.problems.size());
  for (std::size_t at = 0; at < shown; ++at)
    text += (at == 0 ? ". Damaged or missing: " : "; ") + none.problems[at];
  if (none.problems.size() > shown)
    text += "; and " + counted(std::int64_t(none.problems.size() - shown), "more");
  if (none.deleted > 0)
    text +=
        fmt::format(". {} {} not there on purpose: storage.keep_checkpoints keeps the newest {}",
                    counted(none.deleted, "older"), none.deleted == 1 ? "is" : "are", none.kept);
  return text;
}

std::string stray_text(const fs::path& stray) {
  return fmt::format(
      "{} is not in the manifest of its checkpoint: it was not checked, and goes when the "
      "checkpoint is deleted; move it out of there",
      stray.string());
}

std::string set_aside_text(const set_aside_checkpoint& moved, std::int64_t version) {
  using model_is = set_aside_checkpoint::model_is;
  const std::string folder = moved.folder.string(), model = (moved.folder / model_part).string();
  const std::string room = "; it takes room until you delete the folder: no program does";
  if (moved.damage.empty())
    return fmt::format(
        "the run goes on from version {}, and does not know a newer checkpoint that is whole: "
        "moved to {}; run.db may be an older copy. To go on from that policy start a new run with "
        "policy.model={}{}",
        version, folder, model, room);
  const auto left = [&] {
    switch (moved.model) {
      case model_is::whole:
        return fmt::format(
            "Its model is whole: quern export {} FOLDER copies it, and policy.model={} begins a "
            "new run with it",
            folder, model);
      case model_is::damaged:
        return std::string(
            "Its model is damaged, too: without a copy of it only older versions "
            "can be used");
      case model_is::unknown:
        break;
    }
    return fmt::format("Whether its model is whole cannot be told: {} is as it was", model);
  };
  return fmt::format(
      "the run goes on from version {}, since a newer checkpoint cannot be used ({}): moved to {}. "
      "{}{}",
      version, moved.damage, folder, left(), room);
}

}  // namespace quern::storage
