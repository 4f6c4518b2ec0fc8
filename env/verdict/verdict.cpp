// Names of verdicts and what they mean for caching and rewards.
#include "env/verdict/verdict.hpp"

#include <array>

#include <fmt/format.h>

namespace quern::env {

namespace {

constexpr std::array<std::string_view, verdict_kind_count> kind_names{
    "malformed", "rejected_static", "compile_error", "runtime_error",     "timeout",
    "oom",       "wrong_shape",     "wrong_dtype",   "wrong_value",       "nondeterministic",
    "hack",      "noisy",           "unconfirmed",   "invalid_reference", "infra_error",
    "ok",        "unsupported"};

constexpr std::array<std::string_view, hack_kind_count> hack_names{
    "timing",         "impossible", "stale_output",  "late_write",
    "input_modified", "overrun",    "forged_result", "leftover_work"};

template <class E, std::size_t n>
std::optional<E> find_in(const std::array<std::string_view, n>& names, std::string_view name) {
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

std::string where_text(const first_difference& diff) {
  std::string text = diff.output + "[";
  for (std::size_t i = 0; i < diff.index.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ",", diff.index[i]);
  return text + "]";
}

}  // namespace

std::string_view name_of(verdict_kind kind) {
  return kind_names[static_cast<std::size_t>(kind)];
}

std::optional<verdict_kind> parse_verdict_kind(std::string_view name) {
  return find_in<verdict_kind>(kind_names, name);
}

bool judges_candidate(verdict_kind kind) {
  return kind != verdict_kind::noisy && kind != verdict_kind::unconfirmed &&
         kind != verdict_kind::invalid_reference && kind != verdict_kind::infra_error &&
         kind != verdict_kind::unsupported;
}

bool is_cacheable(verdict_kind kind) {
  return judges_candidate(kind) && kind != verdict_kind::timeout;
}

std::string_view name_of(hack_kind kind) {
  return hack_names[static_cast<std::size_t>(kind)];
}

std::optional<hack_kind> parse_hack_kind(std::string_view name) {
  return find_in<hack_kind>(hack_names, name);
}

std::string summary(const verdict& what) {
  std::string text(name_of(what.kind));
  if (!what.reason.empty()) text += "(" + what.reason + ")";
  if (what.speedup_e2)
    text += fmt::format(" {}.{:02}x", *what.speedup_e2 / 100, *what.speedup_e2 % 100);
  if (what.confirmed) text += *what.confirmed ? ", confirmed" : ", not yet confirmed";
  if (what.cached) text += ", cached";
  if (what.first_diff) {
    text += fmt::format(": {} is {}, should be {}", where_text(*what.first_diff),
                        what.first_diff->got, what.first_diff->want);
  } else if (!what.detail.empty()) {
    text += ": " + what.detail;
  }
  return text;
}

}  // namespace quern::env
