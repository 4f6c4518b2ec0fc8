#include "tools/page/step_curves.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace quern::tools {
namespace {

constexpr float nothing_there = std::numeric_limits<float>::quiet_NaN();

/// Lines of other builds may have any number of keys: a page needs few, and memory has an end.
constexpr std::size_t most_series = 200;

/// Keys that are no curves, or that are taken in another way. All others are drawn, those of later
/// builds too: numbers as they are, objects with all numbers in them.
/// The first is of lines of schema 1.
constexpr std::string_view other_keys[] = {"epoch",  // schema 1
                                           "step",    "spent",    "budget",   "incarnation",
                                           "seconds", "batch",    "ok",       "reward",
                                           "ages",    "verdicts", "improved", "held_back"};

/// What a step used, oldest token first; the mean is a key of its own.
double largest_age(const base::json& ages) {
  double largest = -1;
  for (const auto& [age, count] : ages.items())
    if (count.is_number()) largest = std::max(largest, std::strtod(age.c_str(), nullptr));
  return largest;
}

std::optional<std::int64_t> whole_number(const base::json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<std::int64_t>();
}

}  // namespace

base::ordered_json number_or_null(double value) {
  if (!std::isfinite(value)) return nullptr;
  // Six digits are more than a page shows.
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

point_grid::point_grid(std::int64_t first, std::int64_t last, std::int64_t most)
    : first_(first), last_(last) {
  if (last < first) return;
  const std::int64_t steps = last - first + 1;
  width_ = (steps + most - 1) / most;
  points_ = static_cast<std::size_t>((steps + width_ - 1) / width_);
}

std::size_t point_grid::point_of(std::int64_t step) const {
  return static_cast<std::size_t>((step - first_) / width_);
}

std::int64_t point_grid::step_of(std::size_t point) const {
  return std::min(first_ + (static_cast<std::int64_t>(point) + 1) * width_ - 1, last_);
}

void step_curves::take_number(step& made, const std::string& name, const base::json& value) {
  if (!value.is_number()) return;
  auto place = names_.find(name);
  if (place == names_.end()) {
    if (names_.size() >= most_series) return;
    place = names_.emplace(name, names_.size()).first;
  }
  if (made.values.size() <= place->second) made.values.resize(place->second + 1, nothing_there);
  made.values[place->second] = value.get<float>();
}

void step_curves::take_numbers(step& made, const base::json& object, const std::string& before) {
  for (const auto& [key, value] : object.items()) {
    // The name that lines of schema 1 have is drawn as one curve with the present one.
    const std::string name = before == "queues" && key == "scouts"
                                 ? "queues.seed_variants"
                                 : before + "." + key;  // schema 1
    if (value.is_object()) {
      take_numbers(made, value, name);
    } else {
      take_number(made, name, value);
    }
  }
}

void step_curves::take_results(step& made, const base::json& line, std::int64_t at) {
  if (auto results = actors::read_step_results(line)) {
    made.results = std::move(*results);
    made.has_results = true;
    if (made.results.samples == 0) return;
    const auto samples = static_cast<double>(made.results.samples);
    take_number(made, "reward", made.results.reward_sum / samples);
    take_number(made, "ok", static_cast<double>(made.results.ok()) / samples);
    return;
  }
  // Stage search: no batch, and verdicts of the whole run.
  for (const char* key : {"ok", "reward"})
    if (line.contains(key)) take_number(made, key, line[key]);
  const auto found = line.find("verdicts");
  if (found == line.end() || !found->is_object()) return;
  made.results.step = at;
  for (const auto& [name, count] : found->items()) {
    if (!count.is_number_integer()) continue;
    const auto now = count.get<std::int64_t>();
    const std::int64_t fresh = now - std::exchange(verdicts_before_[name], now);
    if (fresh > 0) made.results.verdicts[name] = fresh;
  }
}

void step_curves::add(const base::json& line) {
  if (!line.is_object()) return;
  auto at = whole_number(line, "step");
  if (!at) {
    at = whole_number(line, "spent");
    unit_ = at ? "evaluation" : unit_;
  }
  if (!at || *at < 0) return;
  ++lines_;
  step made;
  take_results(made, line, *at);
  for (const auto& [key, value] : line.items()) {
    if (std::find(std::begin(other_keys), std::end(other_keys), key) != std::end(other_keys))
      continue;
    if (value.is_object()) {
      take_numbers(made, value, key);
    } else {
      take_number(made, key, value);
    }
  }
  if (const auto ages = line.find("ages"); ages != line.end() && ages->is_object())
    if (const double largest = largest_age(*ages); largest >= 0)
      take_number(made, "age_largest", largest);
  if (const auto who = line.find("held_back"); who != line.end() && who->is_object())
    if (const auto text = base::get<std::string>(*who, "text")) held_back_ = *text;
  steps_[*at] = std::move(made);
}

point_grid step_curves::grid() const {
  if (steps_.empty()) return {};
  return {steps_.begin()->first, steps_.rbegin()->first};
}

base::ordered_json step_curves::to_json() const {
  const point_grid points = grid();
  struct sums {
    double sum = 0;
    std::int64_t count = 0;
  };
  std::vector<std::vector<sums>> series(names_.size(), std::vector<sums>(points.points()));
  std::map<std::string, std::vector<std::int64_t>> verdicts;
  // Lines of stage search are far apart: points without one are left out.
  std::vector<bool> there(points.points());
  for (const auto& [at, made] : steps_) {
    const std::size_t point = points.point_of(at);
    there[point] = true;
    for (std::size_t i = 0; i < made.values.size(); ++i) {
      if (std::isnan(made.values[i])) continue;
      series[i][point].sum += made.values[i];
      ++series[i][point].count;
    }
    for (const auto& [name, count] : made.results.verdicts) {
      auto& counts = verdicts[name];
      counts.resize(points.points());
      counts[point] += count;
    }
  }
  base::ordered_json x = base::ordered_json::array(), values = base::ordered_json::object(),
                     mix = base::ordered_json::object();
  for (std::size_t point = 0; point < points.points(); ++point)
    if (there[point]) x.push_back(points.step_of(point));
  for (const auto& [name, place] : names_) {
    base::ordered_json curve = base::ordered_json::array();
    for (std::size_t point = 0; point < points.points(); ++point) {
      if (!there[point]) continue;
      const sums& here = series[place][point];
      curve.push_back(here.count == 0 ? base::ordered_json()
                                      : number_or_null(here.sum / static_cast<double>(here.count)));
    }
    values[name] = std::move(curve);
  }
  for (const auto& [name, counts] : verdicts) {
    base::ordered_json curve = base::ordered_json::array();
    for (std::size_t point = 0; point < points.points(); ++point)
      if (there[point]) curve.push_back(counts[point]);
    mix[name] = std::move(curve);
  }
  return {{"x", std::move(x)},
          {"per_point", points.steps_per_point()},
          {"unit", unit_},
          {"series", std::move(values)},
          {"verdicts", std::move(mix)}};
}

double step_curves::mean(std::string_view series, std::int64_t first, std::int64_t last) const {
  const auto place = names_.find(series);
  double sum = 0;
  std::int64_t count = 0;
  if (place != names_.end())
    for (auto at = steps_.lower_bound(first); at != steps_.end() && at->first <= last; ++at) {
      const auto& values = at->second.values;
      if (values.size() <= place->second || std::isnan(values[place->second])) continue;
      sum += values[place->second];
      ++count;
    }
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(count);
}

actors::step_spans step_curves::present() const {
  actors::step_spans all;
  for (const auto& [at, made] : steps_)
    all.add(at);
  return all;
}

std::vector<std::string> step_curves::warnings() const {
  actors::success_watch watch;
  for (const auto& [at, made] : steps_)
    if (made.has_results) watch.step(made.results);
  return watch.remarks();
}

}  // namespace quern::tools
