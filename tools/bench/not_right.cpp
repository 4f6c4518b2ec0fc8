#include "tools/bench/not_right.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/printable.hpp"
#include "env/judge/explain.hpp"

namespace quern::tools {

std::string not_right_text(std::span<const bench_result> results, const std::string& file,
                           std::size_t most) {
  std::vector<const bench_result*> listed;
  std::size_t wrong = 0;
  for (const bool judged : {true, false}) {
    for (const bench_result& one : results)
      if (one.verdict.kind != env::verdict_kind::ok &&
          env::judges_candidate(one.verdict.kind) == judged)
        listed.push_back(&one);
    if (judged) wrong = listed.size();
  }
  if (listed.empty()) return {};
  std::string text = fmt::format("{} candidates were not right", wrong);
  if (listed.size() > wrong)
    text += fmt::format(", of {} more nothing is known", listed.size() - wrong);
  text += ":\n";
  for (std::size_t i = 0; i < std::min(most, listed.size()); ++i)
    // Names and texts of candidates are somebody else's.
    text += base::printable(fmt::format("  {}  {}  {}\n", listed[i]->task, listed[i]->candidate,
                                        env::outcome_line(listed[i]->verdict)));
  if (listed.size() > most)
    text += fmt::format("  and {} more: {} has all verdicts\n", listed.size() - most, file);
  return text;
}

}  // namespace quern::tools
