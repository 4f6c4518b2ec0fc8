#include "actors/monitor.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/program.hpp"

namespace quern::actors {

namespace {

void add_ages(const std::map<std::int64_t, std::int64_t>& ages, base::ordered_json& line) {
  base::ordered_json by_age = base::ordered_json::object();
  std::int64_t samples = 0, sum = 0;
  for (const auto& [age, count] : ages) {
    by_age[std::to_string(age)] = count;
    samples += count;
    sum += age * count;
  }
  line["ages"] = std::move(by_age);
  if (samples > 0) line["age_mean"] = static_cast<double>(sum) / static_cast<double>(samples);
}

/// A share or mean; null where there is nothing that it could be of.
base::ordered_json over(double sum, std::int64_t count) {
  if (count == 0) return nullptr;
  return sum / static_cast<double>(count);
}

}  // namespace

std::vector<std::string> metrics_so_far::warnings() const {
  std::vector<std::string> all = success.remarks();
  if (!missing.empty()) all.insert(all.begin(), missing);
  return all;
}

metrics_so_far read_metrics_so_far(const std::filesystem::path& metrics, std::int64_t steps,
                                   std::int64_t trained) {
  std::map<weights_version, step_results> made;
  step_spans present;
  const auto read =
      storage::read_jsonl_past_damage(metrics, [&](const base::json& line) -> base::status {
        if (const auto step = base::get<std::int64_t>(line, "step")) present.add(*step);
        if (auto results = read_step_results(line)) made[results->step] = std::move(*results);
        return {};
      });
  if (read && read->count > 0)
    base::log_warn("metrics", "{} damaged lines are left out of what is warned of; the first: {}",
                   read->count, read->first);
  metrics_so_far told;
  if (read || read.error().code == base::errc::not_found) {
    told.missing = missing_steps_text(metrics.string(), present, trained);
  } else {
    base::log_warn("metrics", "no step is looked at for warnings: {}", read.error().message);
  }
  for (const auto& [step, results] : made)
    if (step <= steps) told.success.step(results);
  return told;
}

monitor::monitor(const run_config& config, storage::metrics_writer writer, std::int64_t steps_done,
                 const monitor_sources& from, metrics_so_far before)
    : config_(config),
      roles_(from.roles),
      devices_(from.devices),
      clock_(from.clock),
      writer_(std::move(writer)),
      progress_({.steps = config.learner.steps}, steps_done, from.clock.now_ns()),
      told_(std::move(before)),
      started_(base::started_ns()),
      version_(steps_done) {}

base::expected<std::unique_ptr<monitor>> monitor::make(const run_config& config,
                                                       const storage::run_paths& paths,
                                                       std::int64_t steps_done,
                                                       const monitor_sources& from) {
  // Before the writer, which makes a file that is missing.
  metrics_so_far before = read_metrics_so_far(paths.metrics(), steps_done, steps_done);
  if (!before.missing.empty()) base::log_warn("metrics", "{}", before.missing);
  QUERN_TRY(auto writer, storage::metrics_writer::open(paths));
  return std::unique_ptr<monitor>(
      new monitor(config, std::move(writer), steps_done, from, std::move(before)));
}

void monitor::judged(const std::vector<judged_sample>& samples) {
  if (samples.empty()) return;
  const std::lock_guard lock(guard_);
  for (const judged_sample& sample : samples) {
    ++verdicts_[sample.verdict];
    watch_losses(sample);
    if (!sample.reward) {
      ++unjudged_[sample.verdict];
      continue;
    }
    ++judged_count_;
    if (sample.verdict == "ok") ++ok_;
    reward_sum_ += *sample.reward;
    if (sample.use.best_e2 > 0) use_.add(sample.use);
  }
  progress_.alive(clock_.now_ns());
}

void monitor::watch_losses(const judged_sample& sample) {
  if (sample.malformed) return;
  const bool lost = drop_reason::is_infrastructure(sample.verdict);
  if (lost) newest_loss_ = sample.detail;
  switch (losses_.ended(lost)) {
    case loss_watch::news::none:
      return;
    case loss_watch::news::begun:
    case loss_watch::news::goes_on:
      base::log_error(
          "monitor",
          "{} of the last {} samples were lost because evaluators could not judge them, "
          "at most {} may be; the newest: {}; quern status tells which devices work",
          losses_.lost(), losses_.seen(), loss_watch::most, newest_loss_);
      return;
    case loss_watch::news::over:
      base::log_info("monitor", "evaluators judge again: {} of the last {} samples were lost",
                     losses_.lost(), losses_.seen());
  }
}

void monitor::dropped(const drop_counts& counts) {
  const std::lock_guard lock(guard_);
  for (const auto& [reason, count] : counts)
    dropped_[reason] += count;
}

void monitor::generated(const generator_work& news) {
  const std::lock_guard lock(guard_);
  generators_ += news;
}

void monitor::stepped(const finished_step& step) {
  const std::lock_guard lock(guard_);
  const base::nanoseconds_t now = clock_.now_ns();
  version_ = step.version;
  progress_.stepped(step.version, now);
  base::ordered_json line = {{"step", step.version},
                             {"incarnation", step.incarnation},
                             {"seconds", static_cast<double>(now - started_) / 1e9},
                             {"batch", to_json(step.results)}};
  line.update(take_judged());
  line["left_out"] = std::exchange(left_out_, 0);
  line["in_flight"] = step.in_flight;
  line["queues"] = to_json(step.queues);
  line.update(step.form.to_json());
  add_ages(step.ages, line);
  line.update(roles_.since_last_step());
  if (auto parsed = base::parse_json(step.learner)) line["learner"] = *parsed;
  if (auto written = writer_.append(line); !written) {
    base::log_error("monitor", "{}", written.error().message);
  }
  last_ = base::json::parse(line.dump());
  base::print_line(fmt::format("{}  {}", progress_.line(now), text_of(step.results)));
  for (const std::string& warning : told_.success.step(step.results))
    base::log_warn("monitor", "{}", warning);
}

base::ordered_json monitor::take_judged() {
  base::ordered_json told = {{"judged", judged_count_},
                             {"ok", over(static_cast<double>(ok_), judged_count_)},
                             {"reward", over(reward_sum_, judged_count_)},
                             {"unjudged", unjudged_},
                             {"dropped", dropped_},
                             {"exemplars", use_.to_json()},
                             {"generator", to_json(std::exchange(generators_, {}))}};
  judged_count_ = ok_ = 0;
  reward_sum_ = 0;
  unjudged_.clear();
  dropped_.clear();
  use_ = {};
  return told;
}

void monitor::searched(const search_book* book, incarnation_id incarnation,
                       const queue_depths& queues) {
  if (book == nullptr) return;
  const std::lock_guard lock(guard_);
  if (!search_) {
    base::print_line(book->table_head());
    if (book->spent() > 0) base::print_line(book->table_row());
    row_ = *book;
  }
  if (book->row_due(row_.spent())) write_row(*book, incarnation, queues);
  search_ = *book;
}

void monitor::write_row(const search_book& book, incarnation_id incarnation,
                        const queue_depths& queues) {
  base::ordered_json improved = base::ordered_json::array();
  for (const auto& [task, kernel] : book.best()) {
    const auto before = row_.best().find(task);
    if (before == row_.best().end() || before->second != kernel)
      improved.push_back(to_json(task, kernel));
  }
  base::ordered_json verdicts = base::ordered_json::object();
  for (const auto& [name, count] : book.verdicts())
    verdicts[name] = count;
  base::ordered_json line = {{"spent", book.spent()},
                             {"budget", book.budget()},
                             {"incarnation", incarnation},
                             {"seconds", static_cast<double>(clock_.now_ns() - started_) / 1e9},
                             {"verdicts", std::move(verdicts)},
                             {"improved", std::move(improved)}};
  line.update(take_judged());
  line["queues"] = to_json(queues);
  line.update(roles_.since_last_step());
  if (auto written = writer_.append(line); !written)
    base::log_error("monitor", "{}", written.error().message);
  last_ = base::json::parse(line.dump());
  base::print_line(book.table_row());
  row_ = book;
}

void monitor::take_news(orchestrator& head) {
  judged(head.take_judged());
  dropped(head.take_dropped());
  if (const search_book* found = head.search()) searched(found, head.incarnation(), head.queues());
}

void monitor::left_out() {
  const std::lock_guard lock(guard_);
  ++left_out_;
}

void monitor::look() {
  const std::lock_guard lock(guard_);
  const base::nanoseconds_t now = clock_.now_ns();
  if (!progress_.stalled(now)) return;
  progress_.alive(now);
  const std::string shortage = devices_.shortage();
  base::log_warn("monitor", "nothing was judged and no step was made for {}, at step {}: {}",
                 duration_text(progress_.stall_after()), version_,
                 shortage.empty() ? "quern status says which role the run waits for"
                                  : "no device takes work: " + shortage);
}

void monitor::finish() {
  const std::lock_guard lock(guard_);
  if (auto synced = writer_.sync(); !synced)
    base::log_error("monitor", "{}", synced.error().message);
}

base::json monitor::snapshot() const {
  const std::lock_guard lock(guard_);
  base::json verdicts = base::json::object();
  for (const auto& [name, count] : verdicts_)
    verdicts[name] = count;
  return {{"step", version_},
          {"steps", search_ ? 0 : config_.learner.steps},
          {"progress", search_ ? search_->summary() : progress_.line(clock_.now_ns())},
          {"verdicts", verdicts},
          {"warnings", told_.warnings()},
          {"lost",
           {{"samples", losses_.lost()},
            {"of", losses_.seen()},
            {"too_many", losses_.too_many()},
            {"newest", newest_loss_}}},
          {"loop", base::json::parse(roles_.window().dump())},
          {"last_step", last_}};
}

}  // namespace quern::actors
