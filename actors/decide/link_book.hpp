// Which links for weights (policy/engine/weight_link.hpp) the learner's rank 0 is to open: one for
// each generator, at an address that no other had.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/decide/ids.hpp"

namespace quern::actors {

/// Not thread-safe.
class link_book {
 public:
  /// No links: every address is empty.
  link_book() = default;
  explicit link_book(bool wanted) : wanted_(wanted) {}

  /// The address for a generator that came; `place` is where the run's groups meet: "unix:/FOLDER"
  /// on one host, "tcp://HOST:PORT" of the learner's directory otherwise.
  std::string add(incarnation_id incarnation, const std::string& place);
  /// Its generator is gone.
  void drop(const std::string& address);
  /// Rank 0 is there, or is lost and with it all links.
  void learner_came() { learner_ = true; }
  void learner_lost();
  /// What rank 0 is to open now; each address is told once.
  std::vector<std::string> take_due();

 private:
  bool wanted_ = false;
  std::int64_t made_ = 0;
  bool learner_ = false;
  std::vector<std::string> due_;
};

}  // namespace quern::actors
