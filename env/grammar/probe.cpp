// The trial of a composition on small inputs.
#include "env/grammar/probe.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>

#include "env/grammar/interpret.hpp"
#include "env/tensor_task/fill.hpp"

namespace quern::env {

namespace {

/// Hidden distributions of x in order of preference: the first four that are exact enough are used.
constexpr std::array hidden_choices{distribution::large,    distribution::sparse,
                                    distribution::constant, distribution::sorted,
                                    distribution::uniform,  distribution::positive};
constexpr std::size_t hidden_count = 4;
constexpr std::array operand_choices{distribution::normal, distribution::uniform,
                                     distribution::positive, distribution::sorted,
                                     distribution::sparse};

constexpr std::uint64_t probe_seed = 0x5EED;
constexpr double rtol = 2e-4;
/// A tolerance above this share of the output's size would hide mistakes.
constexpr double worst_atol = 0.01;
/// Sums round the more the longer their rows are. Contents differ in how much.
constexpr std::size_t long_contents = 16;
/// On a row as long as those that are timed, single precision may use a quarter of the tolerance on
/// each of them; where the tolerance is widened for it, a sixth.
constexpr double long_headroom = 4, widened_headroom = 6;
/// Single precision may use an eighth of the tolerance.
constexpr double headroom = 8;
/// Among many elements there is one with the largest error whose own size is next to nothing.
constexpr double cancelled_headroom = 4;
/// Output that varies less than this share of its size is as good as constant.
constexpr double least_variation = 0.02;
/// Largest share of output elements that one or two values may have: half is what relu gives.
constexpr double most_equal = 0.7;

/// Whether the structural step adds up a row.
bool adds_up_rows(const composition& what) {
  const std::size_t core = structural_index(what);
  if (core == what.steps.size()) return false;
  switch (what.steps[core].kind) {
    case step_kind::centre:
    case step_kind::rms:
    case step_kind::l1:
    case step_kind::layer_norm:
    case step_kind::softmax:
    case step_kind::running_sum:
    case step_kind::row_sum:
    case step_kind::row_mean:
      return true;
    default:
      return false;
  }
}

double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values)
    sum += v * v;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

bool all_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

double deviation(const std::vector<double>& values) {
  double mean = 0;
  for (const double v : values)
    mean += v / static_cast<double>(values.size());
  double sum = 0;
  for (const double v : values)
    sum += (v - mean) * (v - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

/// Share of elements that have one of the two most frequent values (both ends of a clip).
double share_of_modes(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::vector<std::size_t> runs{0, 0};
  for (std::size_t k = 0; k < values.size();) {
    std::size_t end = k;
    while (end < values.size() && values[end] == values[k])
      ++end;
    runs.push_back(end - k);
    k = end;
  }
  std::partial_sort(runs.begin(), runs.begin() + 2, runs.end(), std::greater<>());
  return static_cast<double>(runs[0] + runs[1]) / static_cast<double>(values.size());
}

/// Share of elements that differ by more than `factor` tolerances.
double share_apart(const std::vector<double>& want, const std::vector<double>& got,
                   const tolerance& limits, double factor) {
  std::size_t apart = 0;
  for (std::size_t k = 0; k < want.size(); ++k)
    if (!(std::fabs(got[k] - want[k]) <= factor * (limits.atol + limits.rtol * std::fabs(want[k]))))
      ++apart;
  return static_cast<double>(apart) / static_cast<double>(want.size());
}

/// Two significant digits, upwards.
double round_up(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
  return std::ceil(value / unit - 1e-9) * unit;
}

std::vector<float> fill(std::vector<std::int64_t> shape, distribution kind, content_address where) {
  tensor_layout layout;
  layout.shape = std::move(shape);
  for (const std::int64_t extent : layout.shape)
    layout.elements *= extent;
  layout.bytes = layout.elements * static_cast<std::int64_t>(sizeof(float));
  std::vector<float> values(static_cast<std::size_t>(layout.elements));
  // The layout is consistent and every distribution above has a floating form: it cannot fail.
  if (!fill_input(layout, kind, where, std::as_writable_bytes(std::span(values)))) std::abort();
  return values;
}

/// Content by its address. All compositions are tried on the same contents, so that each is made
/// once in a process and stays, about 6 MB. Thread-safe.
std::span<const float> filled(std::vector<std::int64_t> shape, distribution kind,
                              content_address where) {
  using key = std::tuple<std::vector<std::int64_t>, distribution, std::uint64_t, std::uint32_t,
                         std::uint32_t>;
  static std::mutex guard;
  static std::map<key, std::vector<float>> made;
  const std::lock_guard lock(guard);
  const auto [at, is_new] =
      made.try_emplace(key(shape, kind, where.seed, where.input, where.round));
  if (is_new) at->second = fill(std::move(shape), kind, where);
  return at->second;
}

composition_inputs view(std::int64_t n, std::int64_t m, std::span<const float> x,
                        std::span<const float> w, std::span<const float> t) {
  return {n, m, x, w, t};
}

}  // namespace

std::span<const distribution> composition_probe::operand_distributions() {
  return operand_choices;
}

composition_probe::sample composition_probe::make_sample(
    std::pair<std::int64_t, std::int64_t> sizes, distribution of_x, std::size_t round,
    std::uint64_t seed) const {
  const auto [n, m] = sizes;
  // Drawn tasks hang on these numbers.
  const std::uint32_t place = sizes == probe_sizes[0] ? 0 : sizes == probe_sizes[1] ? 16 : 32;
  const auto address = [&](std::uint32_t input) {
    return content_address{seed, input, place + static_cast<std::uint32_t>(round)};
  };
  sample made{n, m, filled({n, m}, of_x, address(0)), {}, {}, {}};
  if (uses_row(subject_)) made.w = filled({m}, operand_choices[round], address(1));
  if (uses_tensor(subject_)) made.t = filled({n, m}, operand_choices[round], address(2));
  made.exact = interpret(subject_, view(n, m, made.x, made.w, made.t));
  return made;
}

double composition_probe::needed_atol(const sample& at) const {
  const auto single = interpret(subject_, view(at.n, at.m, at.x, at.w, at.t), arithmetic::single);
  if (!all_finite(at.exact) || !all_finite(single)) return HUGE_VAL;
  double needed = 0;
  for (std::size_t k = 0; k < single.size(); ++k) {
    const double error = std::fabs(single[k] - at.exact[k]);
    needed = std::max(
        {needed, headroom * error - rtol * std::fabs(at.exact[k]), cancelled_headroom * error});
  }
  return needed;
}

double composition_probe::long_row_atol(distribution of_x, std::size_t round, double room) const {
  if (!adds_up_rows(subject_)) return 0;
  double needed = 0;
  for (std::size_t k = 1; k <= long_contents; ++k) {
    const sample at = make_sample({1, longest_row}, of_x, round, probe_seed + k);
    const auto single = interpret(subject_, view(at.n, at.m, at.x, at.w, at.t), arithmetic::single);
    for (std::size_t i = 0; i < single.size(); ++i)
      needed = std::max(needed,
                        room * std::fabs(single[i] - at.exact[i]) - rtol * std::fabs(at.exact[i]));
  }
  return needed;
}

std::string composition_probe::find_degeneracy(const sample& at) const {
  if (!all_finite(at.exact)) return "not finite";
  if (deviation(at.exact) < least_variation * rms(at.exact) ||
      share_of_modes(at.exact) > most_equal)
    return "constant output";
  const sample other = make_sample(probe_sizes[0], distribution::normal, 0, probe_seed + 1);
  const tolerance limits{rms(at.exact) * least_variation, 0};
  const auto ignores = [&](const sample& from_x, const sample& from_w, const sample& from_t) {
    const auto changed = interpret(subject_, view(at.n, at.m, from_x.x, from_w.w, from_t.t));
    return share_apart(at.exact, changed, limits, 1) < 0.2;
  };
  if (ignores(other, at, at)) return "input x hardly matters";
  if (uses_row(subject_) && ignores(at, other, at)) return "input w hardly matters";
  if (uses_tensor(subject_) && ignores(at, at, other)) return "input t hardly matters";
  return {};
}

void composition_probe::calibrate() {
  const double size = rms(samples_[0].exact);
  double atol = rtol * size;
  for (const sample& at : samples_) {
    const double needed = needed_atol(at);
    if (!(needed <= worst_atol * size)) {
      objection_ = "ill-conditioned";
      return;
    }
    atol = std::max(atol, needed);
  }
  distributions_ = {distribution::normal};
  std::vector<distribution> deferred;
  // `widens`: whether the tolerance may grow for long rows.
  const auto take = [&](distribution choice, bool widens) {
    const std::size_t round = distributions_.size();
    if (round > hidden_count) return;
    std::vector<sample> made;
    double worst = 0;
    for (const auto& sizes : probe_sizes) {
      made.push_back(make_sample(sizes, choice, round, probe_seed));
      worst = std::max(worst, needed_atol(made.back()));
    }
    if (!(worst <= worst_atol * size)) return;
    worst = std::max(worst, atol);
    const double room = widens ? widened_headroom : long_headroom;
    const double on_long_rows = long_row_atol(choice, round, room);
    if (!(on_long_rows <= worst) && !widens) {
      deferred.push_back(choice);
      return;
    }
    atol = std::max(worst, std::min(on_long_rows, worst_atol * size));
    distributions_.push_back(choice);
    std::move(made.begin(), made.end(), std::back_inserter(samples_));
  };
  for (const distribution choice : hidden_choices)
    take(choice, false);
  for (const distribution choice : deferred)
    take(choice, true);
  if (distributions_.size() <= hidden_count) {
    objection_ = "ill-conditioned";
    return;
  }
  tolerance_ = {round_up(atol), rtol};
  fast_is_safe_ = std::all_of(samples_.begin(), samples_.end(), [&](const sample& at) {
    const auto fast = interpret(subject_, view(at.n, at.m, at.x, at.w, at.t), arithmetic::fast);
    return share_apart(at.exact, fast, tolerance_, 0.5) == 0;
  });
}

composition_probe::composition_probe(composition what) : subject_(std::move(what)) {
  samples_.push_back(make_sample(probe_sizes[0], distribution::normal, 0, probe_seed));
  objection_ = find_degeneracy(samples_[0]);
  if (!objection_.empty()) return;
  samples_.push_back(make_sample(probe_sizes[1], distribution::normal, 0, probe_seed));
  calibrate();
}

bool composition_probe::reveals(const composition& other) const {
  if ((uses_row(other) && !uses_row(subject_)) || (uses_tensor(other) && !uses_tensor(subject_)))
    return false;
  const auto [n, m] = probe_sizes[0];
  if (output_elements(other, n, m) != output_elements(subject_, n, m)) return false;
  return std::any_of(samples_.begin(), samples_.end(), [&](const sample& at) {
    const auto got = interpret(other, view(at.n, at.m, at.x, at.w, at.t));
    return share_apart(at.exact, got, tolerance_, 4) >= 0.02;
  });
}

bool composition_probe::reveals_missing_columns() const {
  const std::size_t core = structural_index(subject_);
  if (core == subject_.steps.size()) return true;
  const step_kind kind = subject_.steps[core].kind;
  if (class_of(kind) != step_class::reduction) return true;
  if (kind == step_kind::row_max) return false;
  return std::any_of(samples_.begin(), samples_.end(), [&](const sample& at) {
    const std::int64_t whole = at.m / 8 * 8;
    std::vector<float> x;
    std::vector<float> t;
    for (std::int64_t i = 0; i < at.n; ++i) {
      const auto copy = [&](std::span<const float> from, std::vector<float>& to) {
        if (!from.empty())
          to.insert(to.end(), from.begin() + i * at.m, from.begin() + i * at.m + whole);
      };
      copy(at.x, x);
      copy(at.t, t);
    }
    composition truncated = subject_;
    const auto lost = static_cast<float>(whole) / static_cast<float>(at.m);
    if (kind == step_kind::row_mean)
      truncated.steps.insert(truncated.steps.begin() + static_cast<std::ptrdiff_t>(core) + 1,
                             {step_kind::scale, lost});
    const auto got = interpret(truncated, view(at.n, whole, x, at.w, t));
    return share_apart(at.exact, got, tolerance_, 4) > 0;
  });
}

double composition_probe::largest_before_core() const {
  composition prefix = subject_;
  prefix.steps.resize(structural_index(subject_));
  double largest = -HUGE_VAL;
  for (const sample& at : samples_) {
    const auto h = interpret(prefix, view(at.n, at.m, at.x, at.w, at.t));
    largest = std::max(largest, *std::max_element(h.begin(), h.end()));
  }
  return largest;
}

}  // namespace quern::env
