// Which of two copies of the weights is written, read or offered: links read one while the next
// version is written into the other.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "actors/decide/ids.hpp"

namespace quern::actors {

/// Not thread-safe. Calls come in pairs: `begin` and `written`, `take` and `give_back`.
class copy_book {
 public:
  explicit copy_book(weights_version version) : versions_{version, version} {}

  /// The copy that a new version is written into: the older one, else the newest one where nobody
  /// reads it, whose version is then never offered to anybody again. None: both are being read,
  /// and the new version is not offered (offer_book.hpp).
  std::optional<std::size_t> begin() {
    for (const std::size_t copy : {1 - newest_, newest_}) {
      if (readers_[copy] > 0) continue;
      writing_ = copy;
      return copy;
    }
    return std::nullopt;
  }
  void written(weights_version version) {
    newest_ = *writing_;
    versions_[newest_] = version;
    writing_.reset();
  }

  /// Whether there is a version above `than` to read; not while it is written over.
  [[nodiscard]] bool offers(weights_version than) const {
    return readable() && versions_[newest_] > than;
  }
  [[nodiscard]] bool readable() const { return writing_ != newest_; }
  /// The newest copy, which must be readable; it stays as it is until given back.
  std::size_t take() {
    ++readers_[newest_];
    return newest_;
  }
  void give_back(std::size_t copy) { --readers_[copy]; }
  [[nodiscard]] weights_version version_of(std::size_t copy) const { return versions_[copy]; }

 private:
  std::array<weights_version, 2> versions_;
  std::array<int, 2> readers_ = {0, 0};
  std::size_t newest_ = 0;
  std::optional<std::size_t> writing_;
};

}  // namespace quern::actors
