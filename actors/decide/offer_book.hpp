// Which version of the weights generators are told of: none that the learner could not offer.
#pragma once

#include <algorithm>
#include <optional>

#include "actors/decide/ids.hpp"
#include "actors/decide/mutation.hpp"

namespace quern::actors {

/// Control's side of copy_book.hpp. A step whose weights no copy had room for makes its version all
/// the same, and generators stay on the one that was announced last. Generation may wait for a
/// newer one, by the staleness window, and then no further step comes: so the learner is asked
/// again until it has offered the newest version. Not thread-safe.
class offer_book {
 public:
  offer_book() = default;
  /// Of an incarnation: all of its processes begin with `version`.
  explicit offer_book(weights_version version) : made_(version), announced_(version) {}

  /// A step made `version`, and it is offered or not. Whether it is to be announced.
  bool stepped(weights_version version, bool offered) {
    made_ = std::max(made_, version);
    if (mutated(mutation::unoffered_announced)) offered = true;
    return offered && announce(version);
  }
  /// The learner offers `version` after its step. Whether it is to be announced: not twice, nor
  /// before the step is known.
  bool offered(weights_version version) { return version <= made_ && announce(version); }

  /// The newest version, where it is not announced: the learner is to offer it.
  [[nodiscard]] std::optional<weights_version> missing() const {
    if (announced_ >= made_ || mutated(mutation::unoffered_forgotten)) return std::nullopt;
    return made_;
  }
  [[nodiscard]] weights_version announced() const { return announced_; }

 private:
  bool announce(weights_version version) {
    if (version <= announced_) return false;
    announced_ = version;
    return true;
  }

  weights_version made_ = 0;
  weights_version announced_ = 0;
};

}  // namespace quern::actors
