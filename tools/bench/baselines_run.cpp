#include "tools/bench/baselines_run.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "tools/bench/kernelbench_baselines.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using base::errc;

constexpr std::string_view table_ending = ".json", terms_ending = ".about.json";
constexpr int deepest_terms = 8;

std::vector<std::string_view> all_mode_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < env::reference_mode_count; ++i)
    names.push_back(name_of(static_cast<env::reference_mode>(i)));
  return names;
}

base::expected<std::string> read_table_file(const fs::path& path) {
  return base::read_file(path, max_baselines_bytes);
}

}  // namespace

base::expected<std::vector<env::reference_mode>> parse_modes(std::string_view list) {
  std::vector<env::reference_mode> modes;
  for (const std::string_view name : base::split(list, ',')) {
    const auto mode = env::parse_reference_mode(name);
    const auto known = all_mode_names();
    if (!mode)
      return base::fail(errc::invalid_argument, "--modes: there is no mode '{}'{}; there are {}",
                        name, base::did_you_mean(name, known), fmt::join(known, ", "));
    if (std::find(modes.begin(), modes.end(), *mode) != modes.end())
      return base::fail(errc::invalid_argument, "--modes names {} twice: say it once", name);
    modes.push_back(*mode);
  }
  return modes;
}

base::status check_modes(const env::reference_timer& timer,
                         const std::vector<env::reference_mode>& modes) {
  std::string refused;
  for (const env::reference_mode mode : modes)
    if (const auto can = timer.check_mode(mode); !can)
      refused +=
          fmt::format("{}{}: {}", refused.empty() ? "" : "; ", name_of(mode), can.error().message);
  if (refused.empty()) return {};
  return base::fail(errc::invalid_argument,
                    "--modes: this device ({}) cannot measure {}; leave these modes out, and "
                    "nothing was measured",
                    timer.device_class(), refused);
}

base::expected<fs::path> baseline_path(const std::string& out, env::reference_mode mode,
                                       std::size_t modes) {
  if (!out.ends_with(table_ending)) return fs::path(out) / baseline_file_name(mode);
  if (out.ends_with(terms_ending))
    return base::fail(errc::invalid_argument,
                      "--out {}: files that end in {} tell what tables beside them share; choose "
                      "another name",
                      out, terms_ending);
  if (modes == 1) return fs::path(out);
  return base::fail(errc::invalid_argument,
                    "--out {} is one file, and --modes names {} modes: name a folder", out, modes);
}

base::expected<baseline_file> baseline_file::open(fs::path path, baseline_terms terms) {
  baseline_file file(std::move(path), std::move(terms), {});
  std::error_code unused;
  const fs::path beside = file.terms_path();
  const bool known = fs::exists(beside, unused);
  if (fs::exists(file.path_, unused)) {
    if (!known)
      return base::fail(errc::already_exists,
                        "{} is there, and not from quern baselines ({} is missing), so it is not "
                        "written over: name another place with --out",
                        file.path_.string(), beside.string());
    QUERN_TRY(const std::string text, read_table_file(file.path_));
    QUERN_TRY(file.table_, baseline_table::parse(text, file.path_.string()));
  }
  if (!known) return file;
  QUERN_TRY(const std::string text, read_table_file(beside));
  const auto value = base::parse_json(text, deepest_terms);
  if (!value) return base::in_context(beside.string(), value.error());
  const auto there = terms_from_json(*value);
  if (!there) return base::in_context(beside.string(), there.error());
  // Terms of a table without a row bind nobody.
  if (file.table_.size() == 0) return file;
  if (const auto same = check_same_terms(*there, file.terms_); !same)
    return base::in_context(file.path_.string(), same.error());
  return file;
}

fs::path baseline_file::terms_path() const {
  std::string text = path_.string();
  if (text.ends_with(table_ending)) text.resize(text.size() - table_ending.size());
  return text + std::string(terms_ending);
}

base::status baseline_file::write_terms(const std::vector<left_out_task>& left_out) const {
  QUERN_CHECK(base::make_folders(fs::absolute(path_).parent_path()));
  return base::write_file_atomic(terms_path(), base::dump_pretty(to_json(terms_, left_out)) + "\n");
}

base::status baseline_file::add(int level, const std::string& file, baseline_row row) {
  table_.add(level, file, std::move(row));
  return base::write_file_atomic(path_, table_.text());
}

base::expected<baselines_end> measure_baselines(env::reference_timer& timer,
                                                env::reference_mode mode, const env::suite& suite,
                                                const env::reference_trials& rule,
                                                baseline_file& file, const std::atomic<bool>& stop,
                                                const tell_reference& tell) {
  baselines_end end;
  end.tasks = static_cast<std::int64_t>(suite.members.size());
  QUERN_CHECK(file.write_terms({}));
  std::int64_t number = 0;
  for (const env::suite_member& member : suite.members) {
    ++number;
    const env::benchmark_place& place = *member.place;
    if (file.table().has(place.level, place.file)) {
      ++end.kept;
      continue;
    }
    if (stop) {
      end.stopped = true;
      break;
    }
    const std::string at =
        fmt::format("{}/{} level{} {}", number, end.tasks, place.level, place.file);
    const auto times = timer.time(member.task, mode, rule);
    if (times) {
      const baseline_row row = row_of_times(*times, file.terms().hardware, file.terms().device);
      QUERN_CHECK(file.add(place.level, place.file, row));
      ++end.measured;
      tell(fmt::format("{}: {:g} ms ({} calls)", at, row.mean, row.trials));
    } else if (stop && times.error().code == errc::unavailable) {
      // The signal may have ended the reference, too: it is timed when the command goes on.
      end.stopped = true;
      break;
    } else if (times.error().code == errc::exhausted) {
      end.left_out.push_back({place.level, place.file, times.error().message});
      tell(fmt::format("{}: left out: {}", at, times.error().message));
    } else {
      end.failed.push_back(
          {fmt::format("level{} {}", place.level, place.file), times.error().message});
      tell(fmt::format("{}: FAILED: {}", at, times.error().message));
    }
  }
  QUERN_CHECK(file.write_terms(end.left_out));
  return end;
}

std::string summary_of(const baselines_end& end, const baseline_file& file) {
  const std::int64_t there = end.kept + end.measured;
  std::string out = fmt::format("{}: {} of {} tasks, {} of them measured now\n",
                                file.path().string(), there, end.tasks, end.measured);
  if (!end.left_out.empty())
    out += fmt::format("not in it, since this device class cannot measure them: {}\n",
                       end.left_out.size());
  for (const left_out_task& one : end.left_out)
    out += fmt::format("  level{} {}: {}\n", one.level, one.file, one.reason);
  if (!end.failed.empty()) out += fmt::format("failed: {}\n", end.failed.size());
  for (const failed_reference& one : end.failed)
    out += fmt::format("  {}: {}\n", one.task, one.why);
  if (end.stopped)
    out += fmt::format("{} is measured in part: the same command goes on\n", file.path().string());
  return out;
}

}  // namespace quern::tools
