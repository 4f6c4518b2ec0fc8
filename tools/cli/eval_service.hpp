// `quern eval --serve`: an evaluator that stays up and answers requests, a line each
// (docs/formats/eval_service.md).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "base/status.hpp"
#include "env/judge/judge.hpp"
#include "tools/cli/eval_job.hpp"

namespace quern::tools {

/// Longest line of a request: a candidate, of whose bytes each may be escaped.
inline constexpr std::size_t max_request_line = std::size_t{8} << 20;

/// One line that was read.
struct eval_request_line {
  base::json id;  ///< a text, a whole number, or null where the line has none
  eval_arguments job;
  std::string source;
  bool verdict = true;  ///< whether Quern judges
  base::json exact;     ///< terms of a protocol of others (env/judge/exact_request.hpp); null: none
};

/// What `line` asks for; what it leaves out is as in `usual`. Errors (invalid_argument): no JSON,
/// an unknown key, a value of another kind, nothing asked for, a text that is too long. `id` is
/// that of the line as soon as it is known, so that an error can be answered.
base::expected<eval_request_line> parse_eval_request(std::string_view line,
                                                     const eval_arguments& usual, base::json& id);

/// Answers requests one after another. A judge is opened when the first task of its lane comes, and
/// stays. One thread.
class eval_service {
 public:
  /// `usual`: what the command line says, for all requests.
  explicit eval_service(eval_arguments usual) : usual_(std::move(usual)) {}

  /// A line, without its end: {"id", "verdict", "exact"}, or {"id", "error"}. Never fails.
  std::string answer(std::string_view line);

 private:
  base::expected<base::json> results_of(const eval_request_line& asked);
  base::expected<env::candidate_judge*> judge_for(const env::lane& lane,
                                                  const env::measure_name& measured);

  eval_arguments usual_;
  std::map<std::string_view, std::unique_ptr<env::candidate_judge>> judges_;
};

/// Reads standard input until its end and writes standard output; the first line says who answers.
/// Returns `done` at the end of the input. Where nobody reads the answers any more, the process
/// ends at once, with its children. `failed`: the system makes no thread.
int serve_evaluations(const eval_arguments& usual);

}  // namespace quern::tools
