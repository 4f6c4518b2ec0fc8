#include "actors/decide/exemplar_schedule.hpp"

#include <array>
#include <charconv>
#include <optional>

#include "base/text.hpp"

namespace quern::actors {

using base::errc;
using base::fail;

namespace {

constexpr std::array<exemplar_source, 4> sources = {exemplar_source::all, exemplar_source::seeds,
                                                    exemplar_source::own, exemplar_source::best};
/// As the limit of learner.steps.
constexpr std::int64_t last_step = 1'000'000'000;

std::optional<exemplar_source> source_named(std::string_view name) {
  for (const exemplar_source source : sources) {
    if (name == to_string(source)) return source;
  }
  return std::nullopt;
}

std::optional<std::int64_t> step_of(std::string_view digits) {
  std::int64_t step = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, problem] = std::from_chars(digits.data(), end, step);
  if (problem != std::errc() || rest != end || step < 0 || step > last_step) return std::nullopt;
  return step;
}

}  // namespace

std::string_view to_string(exemplar_source source) {
  switch (source) {
    case exemplar_source::all:
      return "all";
    case exemplar_source::seeds:
      return "seeds";
    case exemplar_source::own:
      return "own";
    case exemplar_source::best:
      return "best";
  }
  return "all";
}

base::expected<exemplar_schedule> exemplar_schedule::parse(std::string_view text) {
  exemplar_schedule made;
  made.phases_.clear();
  for (const std::string_view part : base::split(text, ',')) {
    const std::size_t colon = part.find(':');
    const std::string_view name = base::trim(part.substr(0, colon));
    const auto source = source_named(name);
    if (!source) {
      return fail(errc::invalid_argument,
                  "replay.exemplar_schedule is '{}': '{}' is none of all, seeds, own, best", text,
                  name);
    }
    if (made.phases_.empty()) {
      if (colon != std::string_view::npos) {
        return fail(errc::invalid_argument,
                    "replay.exemplar_schedule is '{}': the first source begins with the run: write "
                    "{} without a step",
                    text, name);
      }
      made.phases_.push_back({0, *source});
      continue;
    }
    const auto step = colon == std::string_view::npos ? std::nullopt
                                                      : step_of(base::trim(part.substr(colon + 1)));
    if (!step || *step <= made.phases_.back().from) {
      return fail(errc::invalid_argument,
                  "replay.exemplar_schedule is '{}': '{}' needs a step above {} and at most {}: "
                  "seeds,own:4,best:12",
                  text, base::trim(part), made.phases_.back().from, last_step);
    }
    made.phases_.push_back({*step, *source});
  }
  return made;
}

exemplar_source exemplar_schedule::at(std::int64_t version) const {
  exemplar_source source = phases_.front().source;
  for (const phase& next : phases_) {
    if (next.from <= version) source = next.source;
  }
  return source;
}

}  // namespace quern::actors
