// Drawing compositions: addressed, with the unsuitable ones left out.
#include "env/grammar/draw.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "base/random.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"
#include "env/grammar/plain_cost.hpp"

namespace quern::env {

namespace {

constexpr std::array constants_of_scale{0.25F, 0.5F, 0.75F, 1.5F, 2.0F, 3.0F};
constexpr std::array constants_of_shift{-1.0F, -0.5F, 0.25F, 0.5F, 1.0F, 1.5F};

/// Every family reaches this with one exponential before its structural step.
constexpr double most_plain_ns = 5;

/// More threads would wait for the last draw of each round.
constexpr std::size_t most_threads = 32;
constexpr std::size_t most_draws_per_thread = 4;

constexpr auto first_operand = step_kind::times_row;
constexpr auto first_structural_kind = step_kind::centre;

/// The default mix: a third element-wise, the rest shared by reductions, normalisations and others.
double default_weight(std::string_view family) {
  if (family == "elementwise") return 12;
  if (family.starts_with("row_")) return 3;
  if (family == "transpose") return 2;
  if (family.starts_with("running_") || family == "difference" || family == "smooth") return 1.5;
  return 1.6;
}

std::string_view draw_family(base::random_stream& random, const draw_limits& limits) {
  std::vector<std::pair<std::string_view, double>> weights;
  for (const auto& [name, weight] : limits.families)
    weights.emplace_back(name, weight);
  if (weights.empty())
    for (const std::string_view name : all_families())
      weights.emplace_back(name, default_weight(name));
  double total = 0;
  for (const auto& [name, weight] : weights)
    total += weight;
  double left = random.uniform() * total;
  for (const auto& [name, weight] : weights)
    if ((left -= weight) < 0) return name;
  return weights.back().first;
}

composition_step draw_step(base::random_stream& random, bool operands) {
  const auto end = static_cast<std::uint64_t>(operands ? first_structural_kind : first_operand);
  composition_step step{static_cast<step_kind>(random.below(end)), 0};
  if (step.kind == step_kind::scale)
    step.constant = constants_of_scale[random.below(constants_of_scale.size())];
  if (step.kind == step_kind::shift)
    step.constant = constants_of_shift[random.below(constants_of_shift.size())];
  return step;
}

/// One attempt; empty when the number of steps is out of bounds.
composition attempt(base::random_stream& random, const draw_limits& limits) {
  composition made;
  const std::string_view family = draw_family(random, limits);
  const auto before = random.between(limits.min_before, limits.max_before);
  const auto after = random.between(0, limits.max_after);
  for (std::int64_t k = 0; k < before; ++k)
    made.steps.push_back(draw_step(random, true));
  bool has_columns = true;
  if (family != all_families()[0]) {
    const auto families = all_families();
    const auto at = std::find(families.begin(), families.end(), family) - families.begin();
    const auto kind =
        static_cast<step_kind>(static_cast<std::ptrdiff_t>(first_structural_kind) + at - 1);
    made.steps.push_back({kind, 0});
    has_columns =
        class_of(kind) != step_class::reduction && class_of(kind) != step_class::transposition;
  }
  for (std::int64_t k = 0; k < after; ++k)
    made.steps.push_back(draw_step(random, has_columns));
  const auto count = static_cast<int>(made.steps.size());
  if (count < limits.min_steps || count > limits.max_steps) made.steps.clear();
  return made;
}

}  // namespace

base::status validate(const draw_limits& limits) {
  const auto bad = [](std::string_view name, int value, int low, int high) {
    return base::fail(base::errc::invalid_argument, "{} is {}, it must be from {} to {}", name,
                      value, low, high);
  };
  const int most = static_cast<int>(max_composition_steps);
  if (limits.min_before < 0) return bad("min_before", limits.min_before, 0, most);
  if (limits.max_before < limits.min_before || limits.max_before > most)
    return bad("max_before", limits.max_before, limits.min_before, most);
  if (limits.max_after < 0 || limits.max_after > most)
    return bad("max_after", limits.max_after, 0, most);
  // An element-wise chain has no step of its own, so the longest one must reach the minimum.
  const int reach = std::min(most, limits.max_before + limits.max_after);
  if (limits.min_steps < 1 || limits.min_steps > reach)
    return bad("min_steps", limits.min_steps, 1, reach);
  const int least = std::max({limits.min_steps, limits.min_before + 1, 1});
  if (limits.max_steps < least || limits.max_steps > most)
    return bad("max_steps", limits.max_steps, least, most);
  if (!(limits.least_plain_ns >= 0 && limits.least_plain_ns <= most_plain_ns))
    return base::fail(base::errc::invalid_argument, "least_plain_ns is {}, it must be from 0 to {}",
                      limits.least_plain_ns, most_plain_ns);
  if (limits.max_before == 0 && limits.least_plain_ns > 0.3)
    return base::fail(base::errc::invalid_argument,
                      "least_plain_ns is {}: without steps before the structural one, 0.3 is the "
                      "most that every family reaches",
                      limits.least_plain_ns);
  double total = 0;
  for (const auto& [name, weight] : limits.families) {
    const auto families = all_families();
    if (std::find(families.begin(), families.end(), name) == families.end())
      return base::fail(base::errc::invalid_argument, "no family '{}'{}", name,
                        base::did_you_mean(name, families));
    if (!(weight >= 0 && weight < 1e9))
      return base::fail(base::errc::invalid_argument,
                        "weight {} of family {} must be from 0 to 1e9", weight, name);
    total += weight;
  }
  if (!limits.families.empty() && total <= 0)
    return base::fail(base::errc::invalid_argument, "all families have weight 0: nothing to draw");
  return {};
}

composition_probe draw_tried(std::uint64_t seed, std::uint64_t index, const draw_limits& limits) {
  base::random_stream random(seed, "composition", {index});
  for (;;) {
    composition made = attempt(random, limits);
    if (made.steps.empty() || plain_ns(made) < limits.least_plain_ns) continue;
    if (composition_probe probe(std::move(made)); probe.objection().empty()) return probe;
  }
}

composition draw_composition(std::uint64_t seed, std::uint64_t index, const draw_limits& limits) {
  return draw_tried(seed, index, limits).subject();
}

tried_draws::tried_draws(std::uint64_t seed, draw_limits limits, std::size_t threads)
    : seed_(seed),
      limits_(std::move(limits)),
      threads_(std::clamp<std::size_t>(threads, 1, most_threads)) {}

composition_probe tried_draws::next() {
  if (ready_.empty()) draw_more();
  composition_probe first = std::move(ready_.front());
  ready_.pop_front();
  return first;
}

void tried_draws::draw_more() {
  // Whoever asks for a few is not to wait for many; a long round waits less often for its slowest.
  round_ = threads_ == 1
               ? 1
               : std::min(std::max(threads_, 2 * round_), most_draws_per_thread * threads_);
  std::vector<std::optional<composition_probe>> made(round_);
  std::atomic<std::size_t> begun = 0;
  const auto draw = [&] {
    for (std::size_t k = begun++; k < made.size(); k = begun++)
      made[k] = draw_tried(seed_, drawn_ + k, limits_);
  };
  std::vector<std::thread> others;
  while (others.size() + 1 < threads_) {
    auto other = base::start_thread("drawing tasks", draw);
    // Where no more are to be had, fewer draw.
    if (!other) break;
    others.push_back(std::move(*other));
  }
  draw();
  for (std::thread& one : others)
    one.join();
  drawn_ += made.size();
  for (auto& one : made)
    ready_.push_back(std::move(*one));
}

}  // namespace quern::env
