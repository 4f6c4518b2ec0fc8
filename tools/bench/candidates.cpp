#include "tools/bench/candidates.hpp"

#include <algorithm>
#include <map>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "env/task/lane.hpp"
#include "tools/bench/kernelbench_names.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using base::errc;

constexpr std::size_t max_candidate_lines = std::size_t{4} << 30U;

/// Collects candidates and refuses what makes a result ambiguous.
class candidate_collector {
 public:
  candidate_collector(const env::suite& suite, skipped_candidates* skipped)
      : suite_(suite), skipped_(skipped), places_(suite) {
    for (std::size_t i = 0; i < suite.members.size(); ++i)
      members_[suite.members[i].task.name] = i;
  }

  base::status add(bench_candidate one) {
    const auto member = members_.find(one.task);
    if (member == members_.end()) {
      if (skipped_ == nullptr) return unknown_task(one);
      skip(one.task);
      return {};
    }
    one.member = member->second;
    return keep(std::move(one));
  }

  /// One whose file is named as KernelBench names them; `task` is empty.
  base::status add(bench_candidate one, const kernelbench_sample& named) {
    const auto member = places_.member_at(named.level, named.problem);
    if (!member && member.error().code == errc::not_found) {
      if (skipped_ == nullptr)
        return base::fail(errc::invalid_argument,
                          "{}: {} (--skip-unknown leaves candidates of other suites out)",
                          one.origin, member.error().message);
      skip(fmt::format("level {} problem {}", named.level, named.problem));
      return {};
    }
    if (!member) return base::in_context(one.origin, member.error());
    one.member = *member;
    one.task = suite_.members[*member].task.name;
    one.sample = named.sample;
    const auto [known, fresh] = samples_.try_emplace({one.member, named.sample}, one.origin);
    if (!fresh)
      return base::fail(errc::invalid_argument,
                        "{}: there is a sample {} of level {} problem {} already ({}): name the "
                        "folder of one run",
                        one.origin, named.sample, named.level, named.problem, known->second);
    return keep(std::move(one));
  }

  std::vector<bench_candidate> take() {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const auto& a, const auto& b) { return a.member < b.member; });
    return std::move(all_);
  }

 private:
  void skip(std::string task) {
    ++skipped_->candidates;
    skipped_->tasks.insert(std::move(task));
  }

  base::status keep(bench_candidate one) {
    if (one.id.empty() || one.id.size() > max_candidate_id)
      return base::fail(errc::invalid_argument, "{}: the id has {} bytes, it must have 1 to {}",
                        one.origin, one.id.size(), max_candidate_id);
    // An id is found again by its text in the results; JSON would write other bytes.
    if (base::json(one.id) != base::parse_json(base::dump(base::json(one.id))).value_or(nullptr))
      return base::fail(errc::invalid_argument, "{}: the id is not UTF-8 text", one.origin);
    if (one.source.size() > max_candidate_source)
      return base::fail(errc::invalid_argument, "{}: the source has {} bytes, the limit is {}",
                        one.origin, one.source.size(), max_candidate_source);
    const auto [known, fresh] = seen_.try_emplace({one.task, one.id}, one.origin);
    if (!fresh)
      return base::fail(
          errc::invalid_argument,
          "{}: task {} has a candidate with the id '{}' already ({}): every candidate "
          "of a task needs its own",
          one.origin, one.task, one.id, known->second);
    one.hash = base::to_hex(base::xxh128(one.source));
    all_.push_back(std::move(one));
    return {};
  }

  base::status unknown_task(const bench_candidate& one) const {
    std::vector<std::string_view> names;
    for (const env::suite_member& member : suite_.members)
      names.push_back(member.task.name);
    return base::fail(errc::invalid_argument,
                      "{}: the suite {} has no task '{}'{} (--skip-unknown leaves candidates of "
                      "other suites out)",
                      one.origin, suite_.name, one.task, base::did_you_mean(one.task, names));
  }

  const env::suite& suite_;
  skipped_candidates* skipped_;
  suite_places places_;
  std::map<std::pair<std::size_t, int>, std::string> samples_;
  std::map<std::string, std::size_t, std::less<>> members_;
  std::map<std::pair<std::string, std::string>, std::string> seen_;
  std::vector<bench_candidate> all_;
};

base::expected<std::string> candidate_id(const base::json& object, std::size_t line) {
  const auto given = object.find("id");
  if (given == object.end() || given->is_null()) return fmt::format("#{}", line);
  if (given->is_string()) return given->get<std::string>();
  if (given->is_number_integer()) return base::dump(*given);
  return base::fail(errc::invalid_argument, "'id' is {}, not text or a whole number",
                    base::dump(*given).substr(0, 80));
}

base::expected<bench_candidate> parse_candidate(std::string_view text, std::size_t line) {
  QUERN_TRY(const base::json object, base::parse_json(text));
  if (!object.is_object()) return base::fail(errc::invalid_argument, "not a JSON object");
  bench_candidate one;
  QUERN_TRY(one.task, base::get<std::string>(object, "task"));
  QUERN_TRY(one.id, candidate_id(object, line));
  const bool has_source = object.contains("source");
  if (has_source == object.contains("code"))
    return base::fail(errc::invalid_argument, "{}: a candidate has one of them",
                      has_source ? "both 'source' and 'code'" : "neither 'source' nor 'code'");
  QUERN_TRY(one.source, base::get<std::string>(object, has_source ? "source" : "code"));
  return one;
}

base::expected<std::vector<fs::path>> candidate_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code problem;
  for (fs::recursive_directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    const std::string name = at->path().filename().string();
    const std::string ending = at->path().extension().string();
    std::error_code unused;
    if (name.starts_with(".")) {
      if (at->is_directory(unused)) at.disable_recursion_pending();
      continue;
    }
    const auto lanes = env::all_lanes();
    const bool taken = is_kernelbench_name(name) ||
                       std::any_of(lanes.begin(), lanes.end(), [&](const env::lane* one) {
                         return one->file_ending == ending;
                       });
    if (taken && at->is_regular_file(unused)) files.push_back(at->path());
  }
  if (problem)
    return base::fail(errc::io, "cannot list the candidates in {}: {}", folder.string(),
                      problem.message());
  // The order of a folder is the file system's own; that of the results is not.
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

base::expected<std::vector<bench_candidate>> parse_candidates(std::string_view text,
                                                              std::string_view name,
                                                              const env::suite& suite,
                                                              skipped_candidates* skipped) {
  candidate_collector found(suite, skipped);
  text = base::without_byte_order_mark(text);
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = base::trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty()) continue;
    const std::string origin = fmt::format("{} line {}", name, number);
    auto one = parse_candidate(line, number);
    if (!one) return base::in_context(origin, one.error());
    one->origin = origin;
    QUERN_CHECK(found.add(std::move(*one)));
  }
  return found.take();
}

base::expected<std::vector<bench_candidate>> take_candidates(
    std::vector<env::bundled_candidate> given, std::string_view name, const env::suite& suite,
    skipped_candidates* skipped) {
  candidate_collector found(suite, skipped);
  for (env::bundled_candidate& one : given) {
    bench_candidate taken;
    taken.origin = fmt::format("{} {} {}", name, one.task, one.id);
    taken.task = std::move(one.task);
    taken.id = std::move(one.id);
    taken.source = std::move(one.source);
    QUERN_CHECK(found.add(std::move(taken)));
  }
  return found.take();
}

base::expected<std::vector<bench_candidate>> read_candidates(const fs::path& from,
                                                             const env::suite& suite,
                                                             skipped_candidates* skipped) {
  std::error_code unused;
  if (!fs::is_directory(from, unused)) {
    QUERN_TRY(const std::string text, base::read_file(from, max_candidate_lines));
    return parse_candidates(text, from.string(), suite, skipped);
  }
  QUERN_TRY(const auto files, candidate_files(from));
  candidate_collector found(suite, skipped);
  for (const fs::path& file : files) {
    bench_candidate one;
    const std::string name = file.filename().string();
    one.id = file.lexically_relative(from).generic_string();
    one.origin = file.string();
    QUERN_TRY(one.source, base::read_file(file, max_candidate_source));
    if (is_kernelbench_name(name)) {
      const auto named = parse_kernelbench_name(name);
      if (!named) return base::in_context(one.origin, named.error());
      QUERN_CHECK(found.add(std::move(one), *named));
      continue;
    }
    one.task = name.substr(0, name.find('.'));
    QUERN_CHECK(found.add(std::move(one)));
  }
  return found.take();
}

}  // namespace quern::tools
