#include "env/lanes/pytorch/kernelbench_exact.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "env/measure/protocols.hpp"

namespace quern::env {
namespace {

constexpr std::array<std::string_view, 6> exact_backends{"cuda", "triton", "tilelang",
                                                         "cute", "hip",    "thunderkittens"};
constexpr std::array<std::string_view, 14> exact_keys{
    "protocol",      "seed",    "correct_trials", "warm_ups",       "discarded",
    "perf_trials",   "measure", "check_speedup",  "reference_only", "excessive_above",
    "timing_method", "backend", "build_dir",      "limit_s"};
constexpr std::int64_t most_correct_trials = 1000, most_perf_trials = 10'000,
                       most_other_calls = 1000;
constexpr std::size_t longest_term = 4096;
/// Sums of such times are finite. A clock of the candidate's own may go back.
constexpr double longest_time_ms = 1e12;
constexpr std::size_t most_metadata = 32, longest_metadata = std::size_t{64} << 10;

tl::unexpected<base::error> bad_term(std::string_view key, const base::json& found,
                                     std::string_view allowed) {
  return base::fail(base::errc::invalid_argument, "exact.{}: {} is not {}", key,
                    base::dump(found).substr(0, 80), allowed);
}

/// Each leaves `to` as it is where the key is not there.
base::status read_whole(const base::json& terms, const char* key, std::int64_t low,
                        std::int64_t high, std::int64_t& to) {
  const auto found = terms.find(key);
  if (found == terms.end()) return {};
  const auto value = base::get<std::int64_t>(terms, key);
  if (!value || *value < low || *value > high)
    return bad_term(key, *found, fmt::format("a whole number in {} .. {}", low, high));
  to = *value;
  return {};
}

base::status read_number(const base::json& terms, const char* key, double low, double high,
                         double& to) {
  const auto found = terms.find(key);
  if (found == terms.end()) return {};
  const auto value = base::get<double>(terms, key);
  if (!value || !(*value >= low && *value <= high))
    return bad_term(key, *found, fmt::format("a number in {} .. {}", low, high));
  to = *value;
  return {};
}

base::status read_switch(const base::json& terms, const char* key, bool& to) {
  const auto found = terms.find(key);
  if (found == terms.end()) return {};
  if (!found->is_boolean()) return bad_term(key, *found, "true or false");
  to = found->get<bool>();
  return {};
}

base::status read_word(const base::json& terms, const char* key, std::string& to) {
  const auto found = terms.find(key);
  if (found == terms.end()) return {};
  if (!found->is_string() || found->get_ref<const std::string&>().size() > longest_term)
    return bad_term(key, *found, fmt::format("a text of at most {} bytes", longest_term));
  to = found->get<std::string>();
  return {};
}

bool is_metadata(const base::json& value) {
  const auto is_text = [](const base::json& one) {
    return one.is_string() && one.get_ref<const std::string&>().size() <= longest_metadata;
  };
  if (!value.is_array()) return is_text(value);
  return value.size() <= static_cast<std::size_t>(most_correct_trials) &&
         std::all_of(value.begin(), value.end(), is_text);
}

base::expected<std::vector<double>> read_times(const base::json& answer, const char* key) {
  const auto list = answer.find(key);
  if (list == answer.end() || !list->is_array() ||
      list->size() > static_cast<std::size_t>(most_perf_trials))
    return base::fail(base::errc::invalid_argument, "no list '{}' of at most {} times", key,
                      most_perf_trials);
  std::vector<double> times;
  for (const base::json& one : *list) {
    if (!one.is_number() || std::abs(one.get<double>()) > longest_time_ms)
      return base::fail(base::errc::invalid_argument, "'{}' holds {}, which is no time", key,
                        base::dump(one).substr(0, 80));
    times.push_back(one.get<double>());
  }
  return times;
}

base::json statistics_json(std::span<const double> times, std::string_view device_class,
                           std::string_view device) {
  const run_statistics of = run_statistics_of(times);
  return {{"mean", of.mean},   {"std", of.deviation},        {"min", of.least},
          {"max", of.largest}, {"num_trials", times.size()}, {"hardware", device_class},
          {"device", device}};
}

base::json end_json(std::string_view end) {
  return {{"protocol", protocol_kernelbench_exact}, {"end", end}};
}

}  // namespace

base::expected<exact_terms> parse_exact_terms(const base::json& terms) {
  if (!terms.is_object())
    return base::fail(base::errc::invalid_argument, "exact: {} is no object",
                      base::dump(terms).substr(0, 80));
  for (const auto& [key, value] : terms.items())
    if (std::find(exact_keys.begin(), exact_keys.end(), key) == exact_keys.end())
      return base::fail(base::errc::invalid_argument, "exact: unknown key '{}'{}; known are {}",
                        key, base::did_you_mean(key, exact_keys), fmt::join(exact_keys, ", "));
  QUERN_TRY(const std::string protocol, base::get<std::string>(terms, "protocol"));
  if (protocol != protocol_kernelbench_exact)
    return bad_term("protocol", protocol, fmt::format("{}", protocol_kernelbench_exact));
  exact_terms read;
  QUERN_CHECK(read_whole(terms, "seed", 0, INT64_MAX, read.seed));
  QUERN_CHECK(read_whole(terms, "correct_trials", 0, most_correct_trials, read.correct_trials));
  QUERN_CHECK(read_whole(terms, "warm_ups", 0, most_other_calls, read.warm_ups));
  QUERN_CHECK(read_whole(terms, "discarded", 0, most_other_calls, read.discarded));
  QUERN_CHECK(read_whole(terms, "perf_trials", 1, most_perf_trials, read.perf_trials));
  QUERN_CHECK(read_switch(terms, "measure", read.measure));
  QUERN_CHECK(read_switch(terms, "check_speedup", read.check_speedup));
  QUERN_CHECK(read_switch(terms, "reference_only", read.reference_only));
  QUERN_CHECK(read_number(terms, "excessive_above", 0, 1e9, read.excessive_above));
  QUERN_CHECK(read_word(terms, "timing_method", read.timing_method));
  QUERN_CHECK(read_word(terms, "backend", read.backend));
  QUERN_CHECK(read_word(terms, "build_dir", read.build_dir));
  QUERN_CHECK(read_number(terms, "limit_s", 1, 3600, read.limit_s));
  std::transform(read.backend.begin(), read.backend.end(), read.backend.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (std::find(exact_backends.begin(), exact_backends.end(), read.backend) == exact_backends.end())
    return bad_term("backend", terms["backend"],
                    fmt::format("one of {}", fmt::join(exact_backends, ", ")));
  return read;
}

std::optional<raised_exception> refused_by_kernelbench(const exact_terms& terms,
                                                       std::string_view precision) {
  if (terms.backend == "hip")
    return raised_exception{"builtins.ValueError", "backend hip needs a GPU of AMD"};
  if (terms.backend == "tilelang" && precision == "fp32")
    return raised_exception{"builtins.AssertionError", "backend tilelang has fp16 and bf16 alone"};
  return std::nullopt;
}

base::json exact_question(const exact_terms& terms, std::string_view precision,
                          const std::string& reference, const std::string& candidate) {
  return {{"ask", "kernelbench_exact"},
          {"reference", reference},
          {"candidate", candidate},
          {"precision", precision},
          {"seed", terms.seed},
          {"correct_trials", terms.correct_trials},
          {"warm_ups", terms.warm_ups},
          {"discarded", terms.discarded},
          {"perf_trials", terms.perf_trials},
          {"measure", terms.measure},
          {"check_speedup", terms.check_speedup},
          {"reference_only", terms.reference_only},
          {"timing_method", terms.timing_method},
          {"backend", terms.backend},
          {"build_dir", terms.build_dir}};
}

base::expected<exact_answer> parse_exact_answer(std::string_view text) {
  QUERN_TRY(const auto answer, base::parse_json(text, 8));
  QUERN_TRY(const auto end, base::get<std::string>(answer, "end"));
  exact_answer read;
  if (end == "retry") {
    read.ending = exact_answer::end::retry;
    return read;
  }
  if (end == "raised") {
    read.ending = exact_answer::end::raised;
    QUERN_TRY(read.raised.name, base::get<std::string>(answer, "name"));
    QUERN_TRY(read.raised.text, base::get<std::string>(answer, "text"));
    return read;
  }
  if (end != "result")
    return base::fail(base::errc::invalid_argument, "'end' is {}", end.substr(0, 80));
  QUERN_TRY(read.compiled, base::get<bool>(answer, "compiled"));
  QUERN_TRY(read.correctness, base::get<bool>(answer, "correctness"));
  const auto metadata = answer.find("metadata");
  if (metadata == answer.end() || !metadata->is_object() || metadata->size() > most_metadata ||
      !std::all_of(metadata->begin(), metadata->end(), is_metadata))
    return base::fail(base::errc::invalid_argument,
                      "no 'metadata' of at most {} texts or lists of texts", most_metadata);
  read.metadata = *metadata;
  QUERN_TRY(read.candidate_ms, read_times(answer, "candidate_ms"));
  QUERN_TRY(read.reference_ms, read_times(answer, "reference_ms"));
  return read;
}

base::json exact_raised(const raised_exception& what) {
  base::json told = end_json("raised");
  told["name"] = what.name;
  told["text"] = what.text;
  return told;
}

base::json exact_without_result(exact_loss how, std::string_view why) {
  base::json told = end_json(how == exact_loss::lost ? "lost" : "unsupported");
  told["text"] = why;
  return told;
}

base::json exact_result(const exact_answer& answer, const exact_terms& terms,
                        std::string_view device_class, std::string_view device) {
  if (answer.ending == exact_answer::end::retry) return end_json("retry");
  if (answer.ending == exact_answer::end::raised) return exact_raised(answer.raised);
  constexpr double not_timed = -1;
  base::json told = end_json("result");
  told["compiled"] = answer.compiled;
  told["correctness"] = answer.correctness;
  told["metadata"] = answer.metadata;
  told["metadata"]["hardware"] = device_class;
  told["metadata"]["device"] = device;
  const auto put = [&](const char* key, std::span<const double> times) {
    const base::json of =
        times.empty() ? base::json::object() : statistics_json(times, device_class, device);
    const double mean = times.empty() ? not_timed : of["mean"].get<double>();
    told[key] = mean;
    told[std::string(key) + "_stats"] = of;
    return mean;
  };
  const double runtime = put("runtime", answer.candidate_ms);
  const double reference = put("ref_runtime", answer.reference_ms);
  if (answer.reference_ms.empty() || terms.reference_only) return told;
  // The clock is the candidate's, too.
  if (runtime == 0)
    return exact_raised({"builtins.ZeroDivisionError", "the mean of the candidate's times is 0"});
  if (reference / runtime > terms.excessive_above) told["metadata"]["excessive_speedup"] = true;
  return told;
}

}  // namespace quern::env
