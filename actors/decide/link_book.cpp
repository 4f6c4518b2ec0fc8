#include "actors/decide/link_book.hpp"

#include <utility>

#include <fmt/format.h>

namespace quern::actors {

std::string link_book::add(incarnation_id incarnation, const std::string& place) {
  if (!wanted_) return "";
  due_.push_back(fmt::format("{}/weights-{}-{}", place, incarnation, ++made_));
  return due_.back();
}

void link_book::drop(const std::string& address) {
  std::erase(due_, address);
}

void link_book::learner_lost() {
  learner_ = false;
  due_.clear();
}

std::vector<std::string> link_book::take_due() {
  if (!learner_) return {};
  return std::exchange(due_, {});
}

}  // namespace quern::actors
