// The choice of recorded completions.
#include "actors/orchestrator/recorded_book.hpp"

#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/file.hpp"
#include "base/random.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

/// Full ids of the tasks that are trained on, by id and by name. A name of several maps to all.
std::multimap<std::string, std::string, std::less<>> names_of(const std::vector<book_task>& tasks) {
  std::multimap<std::string, std::string, std::less<>> names;
  for (const book_task& task : tasks) {
    if (task.held_out) continue;
    names.emplace(task.id, task.id);
    names.emplace(task.task->name, task.id);
  }
  return names;
}

base::expected<recorded_book> book_of(const run_config& config, std::string_view text,
                                      const std::vector<book_task>& tasks) {
  QUERN_TRY(auto all, parse_recorded(text));
  return recorded_book::make(std::move(all), tasks, static_cast<std::uint64_t>(config.run.seed));
}

/// An error names the key, and the file where that is the run's copy.
tl::unexpected<base::error> of_recorded_key(const run_config& config, const fs::path& file,
                                            const base::error& problem) {
  if (file == config.policy.recorded)
    return fail(errc::invalid_argument, "policy.recorded is '{}': {}", file.string(),
                problem.message);
  return fail(errc::invalid_argument, "policy.recorded is '{}', kept in {}: {}",
              config.policy.recorded, file.string(), problem.message);
}

}  // namespace

base::expected<recorded_book> recorded_book::make(std::vector<recorded_completion> all,
                                                  const std::vector<book_task>& tasks,
                                                  std::uint64_t seed) {
  recorded_book book(seed);
  const auto names = names_of(tasks);
  std::unordered_set<base::hash128> seen;
  const auto keep = [&](std::string_view under, pool& to, recorded_completion& one) {
    if (!seen.insert(base::hasher().add(under).add(one.text).digest()).second) return;
    to.push_back(book.playable_.size());
    book.playable_.push_back(std::move(one));
  };
  for (recorded_completion& one : all) {
    if (one.prompt) {
      keep(base::to_hex(*one.prompt), book.by_prompt_[*one.prompt], one);
      continue;
    }
    const auto [first, last] = names.equal_range(one.task);
    if (first == last) {
      ++book.of_other_tasks_;
      continue;
    }
    if (std::next(first) != last)
      return fail(errc::invalid_argument,
                  "line {}: '{}' is the name of several tasks of this run, such as {} and {}: "
                  "write the full id",
                  one.line, one.task, first->second, std::next(first)->second);
    keep(first->second, book.by_task_[first->second], one);
  }
  return book;
}

bool recorded_book::has_task(std::string_view id) const {
  return by_task_.find(id) != by_task_.end();
}

bool recorded_book::has_prompt(const base::hash128& prompt) const {
  return by_prompt_.contains(prompt);
}

const recorded_book::pool* recorded_book::pool_of(const recorded_question& question) const {
  if (!by_prompt_.empty()) {
    const auto found = by_prompt_.find(base::xxh128(question.prompt));
    if (found != by_prompt_.end()) return &found->second;
  }
  const auto found = by_task_.find(question.task);
  return found == by_task_.end() ? nullptr : &found->second;
}

recorded_book::pool recorded_book::order_of_round(const pool& from, group_id group,
                                                  std::uint64_t round) const {
  pool order = from;
  base::random_stream random(seed_, "recorded completion",
                             {static_cast<std::uint64_t>(group), round});
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

base::expected<std::vector<std::string>> recorded_book::choose(
    const recorded_question& question, std::span<const std::size_t> members) const {
  const pool* from = pool_of(question);
  if (from == nullptr)
    return fail(errc::not_found,
                "group {}: policy.recorded has no completion of task {}, nor of its prompt ({}): "
                "add one",
                question.group, question.task, base::to_hex(base::xxh128(question.prompt)));
  std::map<std::uint64_t, pool> rounds;
  std::vector<std::string> texts;
  for (const std::size_t member : members) {
    const std::uint64_t round = member / from->size();
    auto known = rounds.find(round);
    if (known == rounds.end())
      known = rounds.emplace(round, order_of_round(*from, question.group, round)).first;
    texts.push_back(playable_[known->second[member % from->size()]].text);
  }
  return texts;
}

fs::path recorded_file_of(const run_config& config, const fs::path& run) {
  std::error_code ignored;
  const fs::path kept = storage::run_paths{run}.recorded();
  return fs::exists(kept, ignored) ? kept : fs::path(config.policy.recorded);
}

base::expected<recorded_book> load_recorded(const run_config& config, const fs::path& run,
                                            const std::vector<book_task>& tasks) {
  const fs::path file = recorded_file_of(config, run);
  const auto text = read_recorded(file);
  if (!text) return of_recorded_key(config, file, text.error());
  auto book = book_of(config, *text, tasks);
  if (!book) return of_recorded_key(config, file, book.error());
  return book;
}

base::expected<recorded_book> keep_recorded(const run_config& config, const fs::path& run,
                                            const std::vector<book_task>& tasks) {
  const fs::path file = recorded_file_of(config, run), kept = storage::run_paths{run}.recorded();
  const auto text = read_recorded(file);
  if (!text) return of_recorded_key(config, file, text.error());
  auto book = book_of(config, *text, tasks);
  if (!book) return of_recorded_key(config, file, book.error());
  if (file != kept) QUERN_CHECK(base::write_file_atomic(kept, *text));
  return book;
}

}  // namespace quern::actors
