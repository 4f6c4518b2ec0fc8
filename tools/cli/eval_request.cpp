// Lines of requests to `quern eval --serve`.
#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "tools/cli/eval_service.hpp"

namespace quern::tools {
namespace {

constexpr std::array<std::string_view, 9> request_keys{
    "id", "task", "source", "protocol", "baseline", "precision", "verdict", "verify_only", "exact"};

base::expected<base::json> parse_object(std::string_view line) {
  if (line.size() > max_request_line)
    return base::fail(base::errc::invalid_argument, "a line of {} bytes, at most {} are allowed",
                      line.size(), max_request_line);
  auto parsed = base::parse_json(line);
  if (!parsed) return base::in_context("the line is no JSON", parsed.error());
  if (!parsed->is_object())
    return base::fail(base::errc::invalid_argument, "the line is {}, an object is needed",
                      base::dump(*parsed).substr(0, 80));
  return parsed;
}

base::status check_request_keys(const base::json& object) {
  for (const auto& [key, value] : object.items())
    if (std::find(request_keys.begin(), request_keys.end(), key) == request_keys.end())
      return base::fail(base::errc::invalid_argument, "unknown key '{}'{}; known are {}", key,
                        base::did_you_mean(key, request_keys), fmt::join(request_keys, ", "));
  return {};
}

template <class T>
base::status read_if_there(const base::json& object, const char* key, T& to) {
  if (!object.contains(key)) return {};
  QUERN_TRY(to, base::get<T>(object, key));
  return {};
}

}  // namespace

base::expected<eval_request_line> parse_eval_request(std::string_view line,
                                                     const eval_arguments& usual, base::json& id) {
  QUERN_TRY(const auto object, parse_object(line));
  if (const auto given = object.find("id"); given != object.end()) {
    if (!given->is_string() && !given->is_number_integer())
      return base::fail(base::errc::invalid_argument,
                        "'id' is {}, a text or a whole number is needed",
                        base::dump(*given).substr(0, 80));
    id = *given;
  }
  QUERN_CHECK(check_request_keys(object));
  eval_request_line asked{id, usual, {}, true, {}};
  QUERN_TRY(asked.job.task, base::get<std::string>(object, "task"));
  QUERN_TRY(asked.source, base::get<std::string>(object, "source"));
  if (asked.source.size() > max_candidate_bytes)
    return base::fail(base::errc::invalid_argument, "'source' has {} bytes, at most {} are allowed",
                      asked.source.size(), max_candidate_bytes);
  QUERN_CHECK(read_if_there(object, "protocol", asked.job.measuring.protocol));
  QUERN_CHECK(read_if_there(object, "baseline", asked.job.measuring.baseline));
  QUERN_CHECK(read_if_there(object, "precision", asked.job.tasks.precision));
  QUERN_CHECK(read_if_there(object, "verify_only", asked.job.verify_only));
  QUERN_CHECK(read_if_there(object, "verdict", asked.verdict));
  if (const auto exact = object.find("exact"); exact != object.end()) {
    if (!exact->is_object())
      return base::fail(base::errc::invalid_argument,
                        "'exact' is {}, an object with 'protocol' is needed",
                        base::dump(*exact).substr(0, 80));
    asked.exact = *exact;
  }
  if (!asked.verdict && asked.exact.is_null())
    return base::fail(base::errc::invalid_argument,
                      "'verdict' is false and 'exact' is not there: nothing is asked for");
  return asked;
}

}  // namespace quern::tools
