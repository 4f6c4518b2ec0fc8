#include "env/task/reference_timer.hpp"

#include <array>

namespace quern::env {
namespace {

constexpr std::array<std::string_view, reference_mode_count> reference_mode_names{
    "eager",     "compile", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs",
    "cudagraphs"};

}  // namespace

std::string_view name_of(reference_mode mode) {
  return reference_mode_names[static_cast<std::size_t>(mode)];
}

std::optional<reference_mode> parse_reference_mode(std::string_view name) {
  for (std::size_t i = 0; i < reference_mode_names.size(); ++i)
    if (reference_mode_names[i] == name) return static_cast<reference_mode>(i);
  return std::nullopt;
}

trial_book::next trial_book::after(double elapsed_s) const {
  const bool warm = warm_ >= rule_.warm_up || (warm_ > 0 && elapsed_s > rule_.budget_s / 2);
  if (!warm) return next::warm_up;
  const auto made = static_cast<int>(times_ns_.size());
  if (made >= rule_.most) return next::done;
  if (made >= rule_.least) return elapsed_s > rule_.budget_s ? next::done : next::trial;
  // Slow references have no disturbed trials to drop: the least are made all the same.
  return dropped_ > 0 && elapsed_s > 4 * rule_.budget_s ? next::too_busy : next::trial;
}

void trial_book::add(std::int64_t ns, bool disturbed) {
  if (disturbed) {
    ++dropped_;
  } else {
    times_ns_.push_back(ns);
  }
}

}  // namespace quern::env
