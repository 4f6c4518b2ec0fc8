#include "actors/monitor.hpp"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

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

}  // namespace

monitor::monitor(const run_config& config, storage::jsonl_writer writer, std::int64_t steps_done,
                 role_board& roles, bool terminal)
    : config_(config),
      roles_(roles),
      writer_(std::move(writer)),
      progress_({.steps = config.learner.steps}, steps_done, base::steady_clock().now_ns()),
      terminal_(terminal),
      started_(base::started_ns()),
      version_(steps_done) {}

base::expected<std::unique_ptr<monitor>> monitor::make(const run_config& config,
                                                       const storage::run_paths& paths,
                                                       std::int64_t steps_done, role_board& roles,
                                                       bool terminal) {
  QUERN_TRY(auto writer, storage::jsonl_writer::open(paths.metrics()));
  return std::unique_ptr<monitor>(
      new monitor(config, std::move(writer), steps_done, roles, terminal));
}

void monitor::judged(const std::vector<judged_sample>& samples) {
  if (samples.empty()) return;
  const std::lock_guard lock(guard_);
  for (const judged_sample& sample : samples) {
    ++verdicts_[sample.verdict];
    ++judged_count_;
    if (sample.verdict == "ok") ++ok_;
    reward_sum_ += sample.reward;
  }
  progress_.alive(clock_.now_ns());
}

void monitor::stepped(weights_version version, const std::string& metrics, const replay& head) {
  const std::lock_guard lock(guard_);
  const base::nanoseconds_t now = clock_.now_ns();
  version_ = version;
  progress_.stepped(version, now);
  const double count = static_cast<double>(std::max<std::int64_t>(judged_count_, 1));
  base::ordered_json line = {{"step", version},
                             {"epoch", head.epoch()},
                             {"seconds", static_cast<double>(now - started_) / 1e9},
                             {"judged", judged_count_},
                             {"ok", static_cast<double>(ok_) / count},
                             {"reward", reward_sum_ / count},
                             {"in_flight", head.in_flight()}};
  add_ages(head.batch_ages(), line);
  line.update(roles_.since_last_step());
  if (auto parsed = base::parse_json(metrics)) line["learner"] = *parsed;
  if (auto written = writer_.append(line); !written) {
    base::log_error("monitor", "{}", written.error().message);
  }
  last_ = base::json::parse(line.dump());
  show(fmt::format("{}  ok {:3.0f} %  reward {:.2f}", progress_.line(now),
                   100 * static_cast<double>(ok_) / count, reward_sum_ / count));
  judged_count_ = ok_ = 0;
  reward_sum_ = 0;
}

void monitor::look() {
  const std::lock_guard lock(guard_);
  const base::nanoseconds_t now = clock_.now_ns();
  if (!progress_.stalled(now)) return;
  progress_.alive(now);
  base::log_warn("monitor",
                 "nothing was judged and no step was made for {}, at step {}: quern status says "
                 "which role the run waits for",
                 duration_text(progress_.stall_after()), version_);
}

void monitor::show(const std::string& line) const {
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void monitor::finish() {
  const std::lock_guard lock(guard_);
  if (terminal_) std::fprintf(stderr, "\n");
  if (auto synced = writer_.sync(); !synced)
    base::log_error("monitor", "{}", synced.error().message);
}

base::json monitor::snapshot() const {
  const std::lock_guard lock(guard_);
  base::json verdicts = base::json::object();
  for (const auto& [name, count] : verdicts_)
    verdicts[name] = count;
  return {{"step", version_},
          {"steps", config_.learner.steps},
          {"progress", progress_.line(clock_.now_ns())},
          {"verdicts", verdicts},
          {"loop", base::json::parse(roles_.window().dump())},
          {"last_step", last_}};
}

}  // namespace quern::actors
