#include "actors/decide/success_watch.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quern::actors {
namespace {

constexpr double z = 2.576;  // 99 % of a normal distribution, on both sides

/// Lower end of the Wilson score interval of `hits` in `trials`.
double lower_end(std::int64_t hits, std::int64_t trials) {
  const double n = static_cast<double>(trials), share = static_cast<double>(hits) / n;
  const double middle = share + z * z / (2 * n);
  const double spread = z * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  return std::max(0.0, (middle - spread) / (1 + z * z / n));
}

/// Probability of at most `hits` in `trials`, each with probability `p` in (0, 1).
double at_most(std::int64_t hits, std::int64_t trials, double p) {
  const auto n = static_cast<double>(trials);
  double sum = 0;
  for (std::int64_t k = 0; k <= hits; ++k) {
    const auto i = static_cast<double>(k);
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) +
                    i * std::log(p) + (n - i) * std::log1p(-p));
  }
  return std::min(sum, 1.0);
}

double share_of(double part, std::int64_t all) {
  return all == 0 ? 0 : part / static_cast<double>(all);
}

/// "compile_error 12, ok 4": the most frequent first.
std::string counts_of(const std::map<std::string, std::int64_t>& verdicts) {
  std::vector<std::pair<std::string, std::int64_t>> order(verdicts.begin(), verdicts.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [verdict, count] : order)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", verdict, count);
  return text;
}

}  // namespace

std::int64_t step_results::ok() const {
  const auto found = verdicts.find("ok");
  return found == verdicts.end() ? 0 : found->second;
}

void step_results::add(const std::string& verdict, double reward) {
  ++samples;
  rewarded += reward != 0 ? 1 : 0;
  reward_sum += reward;
  ++verdicts[verdict];
}

base::ordered_json to_json(const step_results& results) {
  base::ordered_json batch = {{"samples", results.samples}, {"ok", nullptr}, {"reward", nullptr}};
  if (results.samples > 0) {
    batch["ok"] = share_of(static_cast<double>(results.ok()), results.samples);
    batch["reward"] = share_of(results.reward_sum, results.samples);
  }
  batch["rewarded"] = results.rewarded;
  batch["verdicts"] = results.verdicts;
  return batch;
}

std::optional<step_results> read_step_results(const base::json& line) {
  const auto batch = line.is_object() ? line.find("batch") : line.end();
  if (batch == line.end() || !batch->is_object()) return std::nullopt;
  step_results results;
  const auto step = base::get<std::int64_t>(line, "step");
  const auto samples = base::get<std::int64_t>(*batch, "samples");
  const auto rewarded = base::get<std::int64_t>(*batch, "rewarded");
  const auto verdicts = batch->find("verdicts");
  if (!step || !samples || !rewarded || verdicts == batch->end() || !verdicts->is_object())
    return std::nullopt;
  results.step = *step;
  results.samples = *samples;
  results.rewarded = *rewarded;
  results.reward_sum =
      base::get<double>(*batch, "reward").value_or(0) * static_cast<double>(*samples);
  for (const auto& [verdict, count] : verdicts->items())
    results.verdicts[verdict] = base::get<std::int64_t>(*verdicts, verdict).value_or(0);
  return results;
}

std::string text_of(const step_results& results) {
  if (results.samples == 0) return "no samples";
  return fmt::format("ok {:3.0f} %  reward {:.2f}",
                     100 * share_of(static_cast<double>(results.ok()), results.samples),
                     share_of(results.reward_sum, results.samples));
}

double success_watch::level::share() const {
  return share_of(static_cast<double>(sum.ok()), sum.samples);
}

void success_watch::level::add(const step_results& results) {
  steps.add(results.step);
  sum.samples += results.samples;
  sum.rewarded += results.rewarded;
  sum.reward_sum += results.reward_sum;
  for (const auto& [verdict, count] : results.verdicts)
    sum.verdicts[verdict] += count;
}

success_watch::level success_watch::of(const std::deque<step_results>& steps) const {
  level all;
  for (const step_results& one : steps)
    all.add(one);
  return all;
}

void success_watch::slide(const step_results& results) {
  newest_.push_back(results);
  while (of(newest_).sum.samples - newest_.front().samples >= options_.window) {
    earlier_.push_back(std::move(newest_.front()));
    newest_.pop_front();
    while (of(earlier_).sum.samples - earlier_.front().samples >= options_.window)
      earlier_.pop_front();
    const level now = of(earlier_);
    if (2 * now.sum.samples < options_.window) continue;
    const double low = lower_end(now.sum.ok(), now.sum.samples);
    if (best_ && low <= best_low_) continue;
    best_ = now;
    best_low_ = low;
  }
}

bool success_watch::has_collapsed(const level& now) const {
  if (!best_ || best_low_ <= 0 || now.sum.samples < options_.window) return false;
  return now.share() <= options_.collapsed_share * best_->share() &&
         at_most(now.sum.ok(), now.sum.samples, best_low_ / 2) < options_.probability;
}

success_watch::episode* success_watch::open(trouble what) {
  for (episode& one : episodes_)
    if (one.trouble_kind == what && !one.over) return &one;
  return nullptr;
}

const success_watch::episode& success_watch::begin(trouble what, const level& during) {
  episode& one = episodes_.emplace_back();
  one.trouble_kind = what;
  one.during = during;
  if (what == trouble::collapse) one.before = *best_;
  return one;
}

std::vector<std::string> success_watch::step(const step_results& results) {
  std::vector<std::string> said;
  if (results.samples == 0) return said;
  slide(results);
  const level now = of(newest_);
  if (episode* known = open(trouble::collapse)) {
    known->during.add(results);
    known->over = now.share() >= options_.recovered_share * known->before.share();
  } else if (has_collapsed(now)) {
    said.push_back(text_of(begin(trouble::collapse, now)) +
                   ". The policy may be ruined: look at what it writes (quern sample), and start "
                   "again from weights of before, with a lower learner.learning_rate");
  }
  if (results.rewarded > 0) {
    unrewarded_ = {};
    unrewarded_steps_ = 0;
    if (episode* known = open(trouble::unrewarded)) known->over = true;
    return said;
  }
  unrewarded_.add(results);
  ++unrewarded_steps_;
  if (episode* known = open(trouble::unrewarded)) {
    known->during = unrewarded_;
  } else if (unrewarded_steps_ >= options_.unrewarded) {
    said.push_back(text_of(begin(trouble::unrewarded, unrewarded_)) +
                   ". Nothing can be learned from such steps");
  }
  return said;
}

std::string success_watch::text_of(const episode& one) {
  const level& during = one.during;
  const std::string steps = during.steps.text();
  const std::string verdicts = counts_of(during.sum.verdicts);
  if (one.trouble_kind == trouble::unrewarded)
    return fmt::format("every reward of {} is 0: {} samples ({})", steps, during.sum.samples,
                       verdicts);
  const level& before = one.before;
  return fmt::format(
      "the success rate collapsed: {} of {} samples of {} are ok ({}), {} of {} of {} were",
      during.sum.ok(), during.sum.samples, steps, verdicts, before.sum.ok(), before.sum.samples,
      before.steps.text());
}

std::vector<std::string> success_watch::remarks() const {
  std::vector<std::string> all;
  for (const episode& one : episodes_)
    all.push_back(text_of(one) + (one.over ? "; it came back later" : ""));
  return all;
}

}  // namespace quern::actors
