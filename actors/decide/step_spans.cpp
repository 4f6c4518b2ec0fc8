#include "actors/decide/step_spans.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace quern::actors {
namespace {

std::string text_of(const step_span& span) {
  return span.first == span.last ? std::to_string(span.first)
                                 : fmt::format("{}-{}", span.first, span.last);
}

/// The steps after `version` that are taken a second time.
std::string again_text(weights_version version, weights_version reached) {
  return fmt::format("{} {} {} trained again", reached - version == 1 ? "step" : "steps",
                     text_of({version + 1, reached}), reached - version == 1 ? "is" : "are");
}

}  // namespace

void step_spans::add(weights_version step) {
  auto at = std::find_if(spans_.begin(), spans_.end(),
                         [&](const step_span& span) { return span.last + 1 >= step; });
  if (at == spans_.end() || at->first > step + 1) {
    spans_.insert(at, {step, step});
    return;
  }
  at->first = std::min(at->first, step);
  at->last = std::max(at->last, step);
  const auto next = at + 1;
  if (next == spans_.end() || next->first > at->last + 1) return;
  at->last = next->last;
  spans_.erase(next);
}

std::int64_t step_spans::count() const {
  std::int64_t steps = 0;
  for (const step_span& span : spans_)
    steps += span.last - span.first + 1;
  return steps;
}

step_spans step_spans::missing(std::int64_t trained) const {
  step_spans gaps;
  weights_version next = 1;
  for (const step_span& span : spans_) {
    const weights_version before = std::min(span.first - 1, trained);
    if (next <= before) gaps.spans_.push_back({next, before});
    next = std::max(next, span.last + 1);
  }
  if (next <= trained) gaps.spans_.push_back({next, trained});
  return gaps;
}

std::string step_spans::text() const {
  constexpr std::size_t most = 3;
  if (spans_.empty()) return "no step";
  if (spans_.size() == 1 && spans_[0].first == spans_[0].last)
    return fmt::format("step {}", spans_[0].first);
  const std::size_t shown = std::min(spans_.size(), most);
  std::string text = "steps ";
  for (std::size_t at = 0; at < shown; ++at) {
    const bool last = at + 1 == spans_.size();
    text += fmt::format("{}{}", at == 0 ? "" : last ? " and " : ", ", text_of(spans_[at]));
  }
  if (const std::size_t more = spans_.size() - shown; more > 0)
    text += fmt::format(" and {} more {}", more, more == 1 ? "stretch" : "stretches");
  return text;
}

std::string missing_steps_text(std::string_view file, const step_spans& present,
                               std::int64_t trained) {
  const step_spans gaps = present.missing(trained);
  if (gaps.empty()) return {};
  return fmt::format(
      "{} lacks {}: {} of the {} steps that run.db has trained. Nothing of the training is lost: "
      "run.db and the checkpoints have it. Curves and warnings about rewards leave these steps "
      "out. To have them, put their lines back from a copy of the run while it does not go on, "
      "before the lines that are there",
      file, gaps.text(), gaps.count(), trained);
}

std::string older_checkpoint_text(weights_version newest, weights_version chosen,
                                  weights_version reached) {
  if (chosen >= newest) return {};
  return fmt::format(
      "the run goes on from checkpoint {}, not from checkpoint {}, the newest, which cannot be "
      "used: {}. To keep what they made, end the run and put its whole folder back from a copy",
      chosen, newest, again_text(chosen, std::max(newest, reached)));
}

std::string going_on_text(weights_version version, weights_version reached, std::int64_t wanted,
                          incarnation_id incarnation) {
  const std::string from =
      version == 0 ? "the weights that it began with" : fmt::format("checkpoint {}", version);
  return fmt::format("going on from {}, at version {} of {}, incarnation {}{}", from, version,
                     wanted, incarnation,
                     reached > version ? "; " + again_text(version, reached) : "");
}

}  // namespace quern::actors
