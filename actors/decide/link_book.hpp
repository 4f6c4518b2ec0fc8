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
  /// Addresses are sockets in `folder`.
  explicit link_book(std::string folder) : folder_(std::move(folder)) {}

  /// The address for a generator that came.
  std::string add(epoch_id epoch);
  /// Its generator is gone.
  void drop(const std::string& address);
  /// Rank 0 is there, or is lost and with it all links.
  void learner_came() { learner_ = true; }
  void learner_lost();
  /// What rank 0 is to open now; each address is told once.
  std::vector<std::string> take_due();

 private:
  std::string folder_;
  std::int64_t made_ = 0;
  bool learner_ = false;
  std::vector<std::string> due_;
};

}  // namespace quern::actors
