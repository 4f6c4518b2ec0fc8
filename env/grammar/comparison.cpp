#include "env/grammar/comparison.hpp"

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"

namespace quern::env {
namespace {

bool is_faster(const scored_variant& one, const scored_variant& other) {
  return one.speedup_e2 > other.speedup_e2 &&
         static_cast<double>(one.speedup_e2) >= least_gain * static_cast<double>(other.speedup_e2);
}

std::size_t fastest_of(std::span<const scored_variant> pool, std::span<const std::size_t> places) {
  return *std::max_element(places.begin(), places.end(), [&](std::size_t a, std::size_t b) {
    return pool[a].speedup_e2 < pool[b].speedup_e2;
  });
}

std::vector<std::string> words_of(std::string_view style) {
  std::vector<std::string> words;
  for (const std::string_view word : base::split(style, ' '))
    if (!word.empty()) words.emplace_back(word);
  return words;
}

/// Takes `count` of `from`, in an order drawn as well.
std::vector<std::size_t> draw(std::vector<std::size_t> from, std::size_t count,
                              base::random_stream& random) {
  for (std::size_t i = 0; i < count; ++i)
    std::swap(from[i], from[i + random.below(from.size() - i)]);
  from.resize(count);
  return from;
}

std::string clause(std::string_view verb, const std::vector<std::string>& words) {
  return words.empty() ? std::string() : fmt::format("{} {}", verb, fmt::join(words, " "));
}

}  // namespace

style_change change_of(std::string_view from, std::string_view to) {
  style_change change;
  change.taken = words_of(to);
  for (std::string& word : words_of(from)) {
    const auto same = std::find(change.taken.begin(), change.taken.end(), word);
    if (same == change.taken.end()) {
      change.dropped.push_back(std::move(word));
    } else {
      change.taken.erase(same);
      change.kept.push_back(std::move(word));
    }
  }
  return change;
}

std::optional<comparison> draw_comparison(std::span<const scored_variant> pool, std::size_t count,
                                          bool shows_best, base::random_stream& random) {
  if (count == 0 || pool.size() <= count) return std::nullopt;
  std::vector<std::size_t> all(pool.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::size_t best = fastest_of(pool, all);
  std::vector<std::size_t> slower;
  for (const std::size_t i : all)
    if (is_faster(pool[best], pool[i])) slower.push_back(i);
  if (slower.size() < count) return std::nullopt;

  comparison made;
  made.improves = !shows_best;
  made.shown = draw(std::move(slower), count, random);
  if (shows_best) made.shown[random.below(count)] = best;
  const scored_variant& leads = pool[fastest_of(pool, made.shown)];
  std::vector<std::size_t> answers;
  for (const std::size_t i : all)
    if (std::ranges::find(made.shown, i) == made.shown.end() &&
        (shows_best || is_faster(pool[i], leads)))
      answers.push_back(i);
  if (shows_best) {
    made.answer = fastest_of(pool, answers);
    return made;
  }
  const auto order = [&](std::size_t i) {
    const style_change change = change_of(leads.variant.style, pool[i].variant.style);
    return std::tuple(change.dropped.size() + change.taken.size(), -pool[i].speedup_e2, i);
  };
  made.answer = *std::ranges::min_element(answers, {}, order);
  return made;
}

std::string comparing_line(std::span<const scored_variant> shown, const kernel_variant& answer,
                           bool improves) {
  std::vector<std::size_t> order, wrong;
  for (std::size_t i = 0; i < shown.size(); ++i)
    (shown[i].verdict == verdict_kind::ok ? order : wrong).push_back(i);
  std::ranges::stable_sort(order, std::greater(),
                           [&](std::size_t i) { return shown[i].speedup_e2; });
  const scored_variant& leads = shown[order.front()];
  const auto score = [&](std::size_t place) {
    return fmt::format("{:.2f}", static_cast<double>(shown[order[place]].speedup_e2) / 100);
  };
  std::string line = fmt::format("{} leads, {}", order.front() + 1, score(0));
  if (order.size() > 1) line += " to " + score(1);
  line += fmt::format(": {}.", leads.variant.style);
  for (const std::size_t i : wrong)
    line += fmt::format(" {} is {}.", i + 1, name_of(shown[i].verdict));
  if (!improves) line += " None faster is known.";
  const style_change change = change_of(leads.variant.style, answer.style);
  std::vector<std::string> clauses;
  for (std::string one :
       {clause("keep", change.kept), clause("drop", change.dropped), clause("take", change.taken)})
    if (!one.empty()) clauses.push_back(std::move(one));
  std::string what = fmt::format("{}", fmt::join(clauses, "; "));
  if (!what.empty())
    what.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(what.front())));
  return what.empty() ? line : fmt::format("{} {}.", line, what);
}

}  // namespace quern::env
