// Stretches of steps: which ones a file has or lacks, and how a person is told.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "actors/decide/ids.hpp"

namespace quern::actors {

/// Steps in a row, both ends among them.
struct step_span {
  weights_version first = 0, last = 0;
  bool operator==(const step_span&) const = default;
};

/// Spans in ascending order, with a gap between any two. Steps may be added in any order, and
/// again.
class step_spans {
 public:
  void add(weights_version step);
  void clear() { spans_.clear(); }
  [[nodiscard]] bool empty() const { return spans_.empty(); }
  [[nodiscard]] const std::vector<step_span>& spans() const { return spans_; }
  [[nodiscard]] std::int64_t count() const;
  /// The steps of 1 .. `trained` that are not among these; none where `trained` is 0 or less.
  [[nodiscard]] step_spans missing(std::int64_t trained) const;
  /// "step 5", "steps 1-5", "steps 1-5, 7 and 9-12"; of many the first three and a count.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<step_span> spans_;
};

/// For a person: which of the steps 1 .. `trained`, those of the newest checkpoint, `file`
/// (metrics.jsonl) has no line of, what that costs and what to do. Empty: it has them all.
std::string missing_steps_text(std::string_view file, const step_spans& present,
                               std::int64_t trained);

/// For a person: a run goes on from checkpoint `chosen`, though `newest` was made; `reached` is
/// the newest step that was taken (`reached` >= `newest`). Empty: `chosen` is not older.
std::string older_checkpoint_text(weights_version newest, weights_version chosen,
                                  weights_version reached);

/// For a person: what a run goes on from that had reached step `reached` of `wanted`. `version` 0:
/// from the weights that it began with.
std::string going_on_text(weights_version version, weights_version reached, std::int64_t wanted,
                          incarnation_id incarnation);

}  // namespace quern::actors
