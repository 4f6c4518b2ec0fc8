#include "tools/page/run_view.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/inspect/ledger_state.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/file.hpp"
#include "env/task/task.hpp"
#include "storage/blobs.hpp"
#include "storage/database.hpp"
#include "storage/run_lock.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// What to do about a configuration that cannot be read. The run keeps its text in meta.json, too.
std::string remedy_of_config(const storage::run_paths& paths) {
  const auto recorded = storage::recorded_config(paths);
  const auto text = base::read_file(paths.config());
  if (!recorded) return "put it back from a copy of the run";
  if (text && *text == *recorded) return "use the build that made the run (meta.json names it)";
  return fmt::format("put it back: the text that it had is \"config\" in {}",
                     paths.meta().string());
}

}  // namespace

std::string_view to_string(run_state state) {
  switch (state) {
    case run_state::running:
      return "running";
    case run_state::paused:
      return "paused";
    case run_state::complete:
      return "complete";
  }
  return "unknown";
}

base::expected<run_view> run_view::open(const fs::path& folder, lock_holder lock) {
  run_view made(folder);
  made.lock_ = lock;
  QUERN_TRY(made.meta_, storage::read_meta(made.paths_));
  made.read_config();
  return made;
}

void run_view::read_config() {
  auto config = actors::load_run_config(paths_.config(), {});
  if (!config) {
    base::error why = config.error();
    why.message += "; " + remedy_of_config(paths_);
    problems_["configuration"] = {std::move(why)};
    return;
  }
  config_ = std::move(*config);
  if (config_->stage == "sft") return;
  const auto tasks = actors::task_book::make(*config_);
  if (!tasks) {
    problems_["tasks"] = {
        base::in_context("tasks have no more than their names", tasks.error()).value(), false};
    return;
  }
  for (const actors::book_task& task : tasks->tasks()) {
    const bool drawn = !task.composition.steps.empty();
    words_[task.id] = {drawn ? env::to_text(task.composition) : task.task->name, task.task->family,
                       task.held_out};
  }
}

task_words run_view::words_of(const std::string& task) const {
  const auto known = words_.find(task);
  if (known != words_.end()) return known->second;
  return {std::string(env::task_name_of(task)), "", false};
}

std::string run_view::name() const {
  const std::string folder = paths_.root.filename().string();
  return folder.empty() ? paths_.root.parent_path().filename().string() : folder;
}

std::vector<base::error> run_view::told_problems(bool damaging) const {
  std::vector<base::error> told;
  for (const auto& [part, one] : problems_)
    if (one.damages == damaging) told.push_back(base::in_context(part, one.why).value());
  return told;
}

std::vector<base::error> run_view::damage() const {
  return told_problems(true);
}

std::vector<std::string> run_view::remarks() const {
  std::vector<std::string> all;
  for (base::error& one : told_problems(false))
    all.push_back(std::move(one.message));
  return all;
}

std::vector<std::string> run_view::problems() const {
  std::vector<std::string> all;
  for (base::error& one : damage())
    all.push_back(std::move(one.message));
  for (std::string& one : remarks())
    all.push_back(std::move(one));
  return all;
}

void run_view::refresh() {
  // A step's line is written before the checkpoint that holds it: read in this order, none is
  // missed that is still to come.
  read_ledger();
  read_metrics();
  check_metrics();
  read_state();
  std::string found = fmt::format("{} {} {} {} {}", curves_.lines(), tally_.changes(), checkpoint_,
                                  to_string(state_), report_.size());
  for (const std::string& problem : problems())
    found += "\n" + problem;
  if (found == seen_) return;
  seen_ = std::move(found);
  ++revision_;
}

void run_view::read_metrics() {
  problems_.erase("metrics");
  const auto damaged = tail_.read([this](const base::json& line) { curves_.add(line); });
  if (!damaged) {
    problems_["metrics"] = {damaged.error()};
  } else if (damaged->count > 0) {
    // A line that a dying machine tore costs its own step alone, and nothing brings it back.
    problems_["metrics"] = {
        base::error{base::errc::corrupt, fmt::format("{} damaged lines are left out; the first: {}",
                                                     damaged->count, damaged->first)},
        false};
  }
}

void run_view::check_metrics() {
  problems_.erase("steps");
  // What cannot be read at all has been said.
  if (const auto known = problems_.find("metrics");
      known != problems_.end() && known->second.damages)
    return;
  std::string missing =
      actors::missing_steps_text(paths_.metrics().string(), curves_.present(), checkpoint_);
  if (!missing.empty())
    problems_["steps"] = {base::error{base::errc::not_found, std::move(missing)}, false};
}

void run_view::read_ledger() {
  problems_.erase("ledger");
  if (config_ && config_->stage == "sft") return;
  // A run that was ended before its first sample has none, or an empty one.
  const auto there = actors::has_ledger(paths_);
  if (there && !*there) return;
  const base::status read = there ? scan_ledger() : tl::make_unexpected(there.error());
  if (!read) problems_["ledger"] = {read.error()};
}

base::status run_view::scan_ledger() {
  // Closed at the end: a connection that is open when the run ends would keep the log from being
  // folded in.
  QUERN_TRY(const auto db,
            storage::database::open(paths_.database(), storage::database::access::read));
  QUERN_TRY(auto scan, storage::sample_scan::make(*db, "verdict"));
  QUERN_CHECK(tally_.read(scan));
  QUERN_TRY(checkpoint_, scan.checkpoint());
  read_kernels(scan, tally_.sums());
  return {};
}

void run_view::read_kernels(storage::sample_scan& scan, const sample_sums& sums) {
  std::vector<shown_kernel> fresh;
  const storage::blob_store blobs(paths_.blobs());
  for (const auto& [task, of_task] : best_first(sums.tasks)) {
    if (!of_task.best || fresh.size() == most_kernels) break;
    const auto known =
        std::find_if(kernels_.begin(), kernels_.end(), [&](const shown_kernel& kernel) {
          return kernel.best.sample == of_task.best->sample && kernel.problem.empty();
        });
    if (known != kernels_.end()) {
      fresh.push_back(*known);
      continue;
    }
    shown_kernel kernel{task, *of_task.best, {}, {}, {}};
    const auto read = [&]() -> base::status {
      QUERN_TRY(kernel.verdict, scan.verdict_json(kernel.best.verdict_id));
      if (!kernel.best.source) return base::fail(base::errc::not_found, "it has no source");
      QUERN_TRY(const auto text, scan.text_of(task, *kernel.best.source));
      if (!text) return base::fail(base::errc::not_found, "the archive does not have its source");
      QUERN_TRY(kernel.source, blobs.get(*text));
      return {};
    }();
    if (!read) kernel.problem = read.error().message;
    if (kernel.source.size() > most_source_bytes) {
      kernel.problem = fmt::format("the source has {} bytes; these are the first {}",
                                   kernel.source.size(), most_source_bytes);
      kernel.source.resize(most_source_bytes);
    }
    fresh.push_back(std::move(kernel));
  }
  kernels_ = std::move(fresh);
}

void run_view::read_state() {
  problems_.erase("lock");
  const auto locked = storage::is_locked(paths_.lock());
  if (!locked) problems_["lock"] = {locked.error(), false};
  report_ = base::read_file(paths_.report(), most_source_bytes).value_or("");
  const std::int64_t wanted = !config_                      ? 0
                              : actors::is_search(*config_) ? config_->run.budget_evaluations
                                                            : config_->learner.steps;
  const bool made_all = wanted > 0 && curves_.last() >= wanted;
  const bool tuned = config_ && config_->stage == "sft";
  if (locked && *locked && lock_ == lock_holder::its_run) {
    state_ = run_state::running;
  } else {
    state_ = made_all && (tuned || !report_.empty()) ? run_state::complete : run_state::paused;
  }
}

}  // namespace quern::tools
