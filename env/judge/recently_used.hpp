// The last few of many things, by name.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <unordered_map>
#include <utility>

namespace quern::env {

/// Keeps the `most` things that were asked for last. A reference to one is good until as many
/// others were asked for. Thread-compatible.
template <class Value>
class recently_used {
 public:
  explicit recently_used(std::size_t most) : most_(most) {}

  /// Null where it is not kept, or not any more.
  Value* find(const std::string& name) {
    const auto at = index_.find(name);
    if (at == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, at->second);
    return &order_.front().second;
  }

  /// Whether it is kept; does not count as asking for it.
  [[nodiscard]] bool contains(const std::string& name) const { return index_.contains(name); }

  /// Keeps it under a name that find() does not know; what was not asked for longest may go.
  Value& add(const std::string& name, Value value) {
    order_.emplace_front(name, std::move(value));
    index_[name] = order_.begin();
    if (order_.size() > most_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }

  [[nodiscard]] std::size_t size() const { return order_.size(); }

 private:
  using kept = std::list<std::pair<std::string, Value>>;
  std::size_t most_;
  kept order_;
  std::unordered_map<std::string, typename kept::iterator> index_;
};

}  // namespace quern::env
