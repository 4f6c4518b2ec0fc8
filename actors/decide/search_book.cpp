#include "actors/decide/search_book.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace quern::actors {
namespace {

std::string speedup_text(std::int64_t e2) {
  return fmt::format("{}.{:02}", e2 / 100, e2 % 100);
}

/// "9 ok, 4 wrong_value": the most frequent first.
std::string mix_of(const std::map<std::string, std::int64_t, std::less<>>& verdicts) {
  std::vector<std::pair<std::int64_t, std::string>> counts;
  for (const auto& [name, count] : verdicts)
    counts.emplace_back(-count, name);
  std::sort(counts.begin(), counts.end());
  std::string text;
  for (const auto& [count, name] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", -count, name);
  return text;
}

}  // namespace

bool search_book::spends(std::string_view verdict) {
  return verdict != "infra_error" && verdict != "invalid_reference";
}

void search_book::ended(std::string_view verdict, std::int64_t samples) {
  verdicts_[std::string(verdict)] += samples;
  if (spends(verdict)) spent_ += samples;
}

void search_book::found(const std::string& task, found_kernel kernel) {
  kernel.evaluation = spent_;
  const auto [at, fresh] = best_.emplace(task, kernel);
  if (!fresh && kernel.speedup_e2 > at->second.speedup_e2) at->second = kernel;
}

std::int64_t search_book::next_group(std::int64_t open) const {
  return std::clamp<std::int64_t>(budget_ - spent_ - open, 0, group_size_);
}

bool search_book::row_due(std::int64_t before) const {
  if (spent_ <= before) return false;
  return spent_ / group_size_ > before / group_size_ || spent_ == budget_;
}

double search_book::mean_best() const {
  double sum = 0;
  for (const auto& [task, kernel] : best_)
    sum += std::log(static_cast<double>(std::max<std::int64_t>(kernel.speedup_e2, 1)) / 100);
  return best_.empty() ? 0 : std::exp(sum / static_cast<double>(best_.size()));
}

std::string search_book::table_head() const {
  if (tasks_ > 1)
    return fmt::format("{:>13}  {:>11}  {:>9}   {}", "evaluations", "with kernel", "mean best",
                       "verdicts");
  return fmt::format("{:>13}  {:>6}   {:<14}  {}", "evaluations", "best", "95 % interval",
                     "verdicts");
}

std::string search_book::table_row() const {
  const std::string done = fmt::format("{}/{}", spent_, budget_), mix = mix_of(verdicts_);
  if (tasks_ > 1)
    return fmt::format("{:>13}  {:>11}  {:>9}   {}", done,
                       fmt::format("{} of {}", best_.size(), tasks_),
                       best_.empty() ? "-" : fmt::format("{:.2f}x", mean_best()), mix);
  if (best_.empty()) return fmt::format("{:>13}  {:>6}   {:<14}  {}", done, "-", "", mix);
  const found_kernel& best = best_.begin()->second;
  const std::string interval =
      best.high_e2 == 0
          ? std::string("not told")
          : fmt::format("{} to {}", speedup_text(best.low_e2), speedup_text(best.high_e2));
  return fmt::format("{:>13}  {:>6}   {:<14}  {}", done, speedup_text(best.speedup_e2) + "x",
                     interval, mix);
}

std::string search_book::summary() const {
  std::string text = fmt::format("{} of {} evaluations", spent_, budget_);
  if (best_.empty()) return text + ", no kernel is right yet";
  if (tasks_ > 1)
    return text + fmt::format(", a kernel for {} of {} tasks, geometric mean of the best {:.2f}x",
                              best_.size(), tasks_, mean_best());
  return text + fmt::format(", best {}x", speedup_text(best_.begin()->second.speedup_e2));
}

base::ordered_json to_json(const std::string& task, const found_kernel& kernel) {
  base::ordered_json told = {
      {"task", task}, {"sample", kernel.sample}, {"speedup_e2", kernel.speedup_e2}};
  if (kernel.high_e2 > 0) {
    told["low_e2"] = kernel.low_e2;
    told["high_e2"] = kernel.high_e2;
  }
  told["evaluation"] = kernel.evaluation;
  return told;
}

}  // namespace quern::actors
