// What a policy makes of the kernels that its prompts show.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/json.hpp"
#include "base/status.hpp"
#include "env/verdict/verdict.hpp"
#include "storage/archive.hpp"

namespace quern::actors {

/// A judged answer, to a prompt that may have shown kernels.
struct exemplar_answer {
  bool right = false;
  std::int64_t speedup_e2 = 0;  ///< of a right one, in 1/100
  bool copies = false;          ///< it is one of those shown, but for comments and blanks
  std::int64_t best_e2 = 0;     ///< of the fastest shown, in 1/100; 0: none was shown
};

/// What a judged candidate made of the variants of the archive that its prompt showed. Error: one
/// of them is not there.
base::expected<exemplar_answer> answer_to(const env::verdict& judged,
                                          std::span<const std::int64_t> shown,
                                          const storage::archive& archive);

/// Counts answers to prompts with exemplars. Symbols: b, the speed-up of the fastest kernel shown;
/// s, that of the answer. An answer improves where it is `ok` and s >= 1.03 b, which two
/// measurements of one kernel hardly differ by. Not thread-safe.
class exemplar_use {
 public:
  /// `given` is to a prompt that showed some.
  void add(const exemplar_answer& given);

  [[nodiscard]] std::int64_t judged() const { return judged_; }
  /// Shares of what was judged; 0 where nothing was.
  [[nodiscard]] double improved() const { return share(improved_); }
  [[nodiscard]] double copied() const { return share(copied_); }
  /// The geometric mean of s / b over right answers; 0 where none was right.
  [[nodiscard]] double over_best() const;

  /// `judged`, `improved`, `copied`, `over_best`; the last is null where none was right.
  [[nodiscard]] base::json to_json() const;

 private:
  [[nodiscard]] double share(std::int64_t count) const {
    return judged_ == 0 ? 0 : static_cast<double>(count) / static_cast<double>(judged_);
  }
  std::int64_t judged_ = 0, right_ = 0, improved_ = 0, copied_ = 0;
  double log_over_best_ = 0;
};

/// "improves on the best shown 12 > 24 %, copies one 3 > 1 %, speed-up over it x0.81 > x0.92"
std::string text_of(const exemplar_use& before, const exemplar_use& after);

}  // namespace quern::actors
