#include "base/text.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/core.h>

namespace quern::base {
namespace {

/// Insertions, deletions, replacements and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_before, before, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_before = std::exchange(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], two_before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// Slips that a word of this length may have: in a short one two of them leave nothing to know it
/// by, and a long one with more than three is another word.
std::size_t most_slips(std::size_t length) {
  return std::clamp<std::size_t>(length / 3, 1, 3);
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  std::size_t best_distance = most_slips(name.size()) + 1;
  for (std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view best = nearest_name(name, candidates);
  return best.empty() ? std::string() : fmt::format(" (did you mean '{}'?)", best);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string one_line(std::string_view text) {
  std::string joined;
  for (const std::string_view part : split(text, '\n')) {
    const std::string_view line = trim(part);
    if (line.empty()) continue;
    if (!joined.empty()) joined += "; ";
    joined += line;
  }
  return joined;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view space = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(space) - first + 1);
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  return text.substr(text.starts_with(mark) ? mark.size() : 0);
}

std::string human_bytes(std::uint64_t count) {
  constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(count);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", count) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string human_duration(nanoseconds_t duration) {
  if (duration < 0) return "-" + human_duration(-duration);
  const double seconds = static_cast<double>(duration) / 1e9;
  if (duration < 1_us) return fmt::format("{} ns", duration);
  if (duration < 1_ms) return fmt::format("{:.3g} us", seconds * 1e6);
  if (duration < 1_s) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (duration < 120_s) return fmt::format("{:.1f} s", seconds);
  const std::int64_t minutes = duration / 60_s;
  if (minutes < 60) return fmt::format("{} min {} s", minutes, duration / 1_s % 60);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace quern::base
