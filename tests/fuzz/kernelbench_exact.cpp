// What a process says in which KernelBench's evaluator runs beside the candidate, and the terms of
// that evaluation.
#include "env/lanes/pytorch/kernelbench_exact.hpp"

#include <cmath>

#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  env::exact_terms terms;
  if (const auto json = base::parse_json(text, 16)) {
    const auto read = env::parse_exact_terms(*json);
    if (read) {
      terms = *read;
      require(terms.correct_trials <= 1000 && terms.perf_trials >= 1 && terms.perf_trials <= 10'000,
              "trials are bounded");
      require(terms.limit_s >= 1 && terms.limit_s <= 3600, "time is bounded");
      auto asked = env::exact_question(terms, "fp32", "a", "b");
      require(base::parse_json(base::dump(asked)).value() == asked, "a question is read the same");
    } else {
      require(!read.error().message.empty(), "an error has a message");
    }
  }
  const auto answer = env::parse_exact_answer(text);
  if (!answer) {
    require(!answer.error().message.empty(), "an error has a message");
    return;
  }
  const base::json result = env::exact_result(*answer, terms, "class");
  require(result.at("protocol") == env::protocol_kernelbench_exact, "a result has its protocol");
  require(base::parse_json(base::dump(result)).value() == result, "a result is read the same");
  if (result.at("end") != "result") return;
  require(std::isfinite(result.at("runtime").get<double>()), "a mean is finite");
  require(result.at("runtime_stats").empty() == answer->candidate_ms.empty(),
          "statistics are there for what was timed");
}
