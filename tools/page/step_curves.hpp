// What metrics.jsonl says of each step, as curves that can be drawn.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/decide/success_watch.hpp"
#include "base/json.hpp"

namespace quern::tools {

/// How many points a curve has at most: more than a screen shows, and a page that stays small.
inline constexpr std::int64_t most_points = 400;

/// Neighbouring steps in one point, so that a curve has at most `most` of them.
class point_grid {
 public:
  point_grid() = default;
  /// For the steps `first` .. `last`.
  point_grid(std::int64_t first, std::int64_t last, std::int64_t most = most_points);

  [[nodiscard]] std::size_t points() const { return points_; }
  [[nodiscard]] std::int64_t steps_per_point() const { return width_; }
  /// The point that holds `step`, which lies in the range of the constructor.
  [[nodiscard]] std::size_t point_of(std::int64_t step) const;
  /// The last step of a point.
  [[nodiscard]] std::int64_t step_of(std::size_t point) const;

 private:
  std::int64_t first_ = 0, last_ = -1, width_ = 1;
  std::size_t points_ = 0;
};

/// The lines of one run. A step that has a line again counts as it was the last time. Lines and
/// keys of other builds are no error: what is not there is not drawn. Not thread-safe.
class step_curves {
 public:
  /// A line of metrics.jsonl, of any stage. One without a step, or without evaluations that were
  /// spent (stage search), is left out.
  void add(const base::json& line);

  /// Steps, or evaluations of stage search; 0 before the first line.
  [[nodiscard]] std::int64_t last() const { return steps_.empty() ? 0 : steps_.rbegin()->first; }
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  /// Grows with each line.
  [[nodiscard]] std::int64_t lines() const { return lines_; }
  [[nodiscard]] point_grid grid() const;

  /// {"x": [step], "per_point", "unit", "series": {NAME: [number or null]}, "verdicts": {NAME:
  /// [count]}}. Series are means over the steps of a point, verdicts are sums.
  [[nodiscard]] base::ordered_json to_json() const;

  /// The mean of a series over the steps first .. last that have it; NaN where none has.
  [[nodiscard]] double mean(std::string_view series, std::int64_t first, std::int64_t last) const;

  /// Warnings of a policy that was ruined, as in the closing report.
  [[nodiscard]] std::vector<std::string> warnings() const;
  /// The steps that have a line; of stage search, counts of evaluations.
  [[nodiscard]] actors::step_spans present() const;
  /// Who held the run back, as the last line says; empty where it says nothing.
  [[nodiscard]] const std::string& held_back() const { return held_back_; }

 private:
  struct step {
    std::vector<float> values;  ///< by the place in names_; NaN: the line had none
    actors::step_results results;
    bool has_results = false;
  };
  void take_numbers(step& made, const base::json& object, const std::string& before);
  void take_number(step& made, const std::string& name, const base::json& value);
  void take_results(step& made, const base::json& line, std::int64_t at);

  std::map<std::string, std::size_t, std::less<>> names_;
  std::map<std::int64_t, step> steps_;
  std::int64_t lines_ = 0;
  std::string unit_ = "step";
  std::string held_back_;
  /// Stage search counts verdicts of the whole run: those of the line before.
  std::map<std::string, std::int64_t> verdicts_before_;
};

/// A finite number; null where there is none.
base::ordered_json number_or_null(double value);

}  // namespace quern::tools
