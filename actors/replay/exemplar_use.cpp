#include "actors/replay/exemplar_use.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quern::actors {
namespace {

constexpr std::int64_t least_gain_percent = 3;

}  // namespace

void exemplar_use::add(const env::verdict& what, std::string_view identity,
                       std::span<const std::string> shown, std::int64_t best_e2) {
  ++judged_;
  if (!identity.empty() && std::ranges::count(shown, identity) > 0) ++copied_;
  const std::int64_t speedup_e2 = what.speedup_e2.value_or(0);
  if (what.kind != env::verdict_kind::ok || speedup_e2 <= 0 || best_e2 <= 0) return;
  ++right_;
  log_over_best_ += std::log(static_cast<double>(speedup_e2) / static_cast<double>(best_e2));
  if (speedup_e2 * 100 >= best_e2 * (100 + least_gain_percent)) ++improved_;
}

double exemplar_use::over_best() const {
  return right_ == 0 ? 0 : std::exp(log_over_best_ / static_cast<double>(right_));
}

base::json exemplar_use::to_json() const {
  base::json told = {
      {"judged", judged_}, {"improved", improved()}, {"copied", copied()}, {"over_best", nullptr}};
  if (right_ > 0) told["over_best"] = over_best();
  return told;
}

std::string text_of(const exemplar_use& before, const exemplar_use& after) {
  const auto speed = [](const exemplar_use& use) {
    return use.over_best() == 0 ? std::string("-") : fmt::format("x{:.2f}", use.over_best());
  };
  return fmt::format(
      "improves on the best shown {:.0f} > {:.0f} %, copies one {:.0f} > {:.0f} %, speed-up over "
      "it {} > {}",
      100 * before.improved(), 100 * after.improved(), 100 * before.copied(), 100 * after.copied(),
      speed(before), speed(after));
}

}  // namespace quern::actors
