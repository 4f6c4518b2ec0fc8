#include "actors/orchestrator/exemplar_use.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace quern::actors {
namespace {

constexpr std::int64_t least_gain_percent = 3;

}  // namespace

base::expected<exemplar_answer> answer_to(const env::verdict& judged,
                                          std::span<const std::int64_t> shown,
                                          const storage::archive& archive) {
  exemplar_answer given;
  given.right = judged.kind == env::verdict_kind::ok;
  given.speedup_e2 = judged.speedup_e2.value_or(0);
  const auto source = base::parse_hash(judged.source);
  for (const std::int64_t id : shown) {
    QUERN_TRY(const storage::variant variant, archive.get(id));
    given.best_e2 = std::max(given.best_e2, variant.speedup_e2.value_or(0));
    given.copies |= source && *source == variant.source_hash;
  }
  return given;
}

void exemplar_use::add(const exemplar_answer& given) {
  ++judged_;
  if (given.copies) ++copied_;
  if (!given.right || given.speedup_e2 <= 0 || given.best_e2 <= 0) return;
  ++right_;
  log_over_best_ +=
      std::log(static_cast<double>(given.speedup_e2) / static_cast<double>(given.best_e2));
  if (given.speedup_e2 * 100 >= given.best_e2 * (100 + least_gain_percent)) ++improved_;
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
      "improves on the best shown: {:.0f} % first, {:.0f} % last; copies one: {:.0f} % first, "
      "{:.0f} % last; speed-up over it: {} first, {} last",
      100 * before.improved(), 100 * after.improved(), 100 * before.copied(), 100 * after.copied(),
      speed(before), speed(after));
}

}  // namespace quern::actors
