// Passes over the tasks, each in an order of its own.
#include "actors/decide/task_sampler.hpp"

#include <algorithm>
#include <set>

#include "base/random.hpp"

namespace quern::actors {

using base::errc;
using base::fail;

base::expected<task_sampler> task_sampler::make(std::uint64_t seed,
                                                std::vector<curriculum_entry> entries) {
  std::set<std::string> seen;
  std::vector<std::string> tasks;
  std::vector<std::size_t> deck;
  for (auto& entry : entries) {
    if (entry.held_out) {
      return fail(errc::invalid_argument,
                  "task {} is held out and must not be trained on; take it out of the training set",
                  entry.task);
    }
    if (!seen.insert(entry.task).second) {
      return fail(errc::invalid_argument, "task {} is listed twice; give it a weight instead",
                  entry.task);
    }
    if (entry.weight < 0 || entry.weight > 1000) {
      return fail(errc::invalid_argument, "task {} has weight {}; allowed are 0 to 1000",
                  entry.task, entry.weight);
    }
    deck.insert(deck.end(), static_cast<std::size_t>(entry.weight), tasks.size());
    tasks.push_back(std::move(entry.task));
  }
  if (deck.empty())
    return fail(errc::invalid_argument, "no task with a weight above 0 to train on");
  return task_sampler(seed, std::move(tasks), std::move(deck));
}

const std::string& task_sampler::task_of(std::int64_t sequence) {
  const auto pass = sequence / pass_length();
  if (pass != pass_) {
    order_ = deck_;
    base::random_stream random(seed_, "curriculum", {static_cast<std::uint64_t>(pass)});
    for (std::size_t i = order_.size(); i > 1; --i)
      std::swap(order_[i - 1], order_[random.below(i)]);
    pass_ = pass;
  }
  return tasks_[order_[static_cast<std::size_t>(sequence % pass_length())]];
}

}  // namespace quern::actors
