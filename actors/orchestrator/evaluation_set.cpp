#include "actors/orchestrator/evaluation_set.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/random.hpp"
#include "env/screen/canonical.hpp"

namespace quern::actors {
namespace {

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Whether prompt `index` is one of those `share` of the prompts, evenly spread, that show
/// exemplars.
bool shows_exemplars(std::int64_t index, double share) {
  const auto before = static_cast<double>(index);
  return std::floor((before + 1) * share) > std::floor(before * share);
}

}  // namespace

double evaluation_set_half::mean_first() const {
  return mean(first);
}
double evaluation_set_half::mean_last() const {
  return mean(last);
}
double evaluation_set_half::gain() const {
  return mean_first() > 0 ? mean_last() / mean_first() : 0;
}

gain_interval evaluation_set_half::interval(std::uint64_t seed) const {
  constexpr int draws = 2000;
  if (first.empty()) return {};
  base::random_stream random(seed, "panel bootstrap");
  std::vector<double> gains;
  for (int draw = 0; draw < draws; ++draw) {
    double before = 0;
    double after = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const std::size_t pick = random.below(first.size());
      before += first[pick];
      after += last[pick];
    }
    gains.push_back(before > 0 ? after / before : 0);
  }
  std::sort(gains.begin(), gains.end());
  constexpr int tail = draws / 40;
  return {gains[tail], gains[draws - 1 - tail]};
}

base::expected<evaluation_set> evaluation_set::make(const run_config& config,
                                                    const task_book& tasks,
                                                    const prompter& prompts) {
  QUERN_TRY(const auto reward, env::find_reward(config.algorithm.reward));
  evaluation_set made(config, &prompts, reward);
  std::vector<const book_task*> train;
  std::vector<const book_task*> held_out;
  for (const book_task& task : tasks.tasks())
    (task.held_out ? held_out : train).push_back(&task);
  made.add_items(train, config.observe.evaluation_set_train);
  made.add_items(held_out, config.observe.evaluation_set_held_out);
  return made;
}

base::expected<evaluation_set> evaluation_set::read(const run_config& config,
                                                    const task_book& tasks,
                                                    const base::json& written) {
  QUERN_TRY(const auto reward, env::find_reward(config.algorithm.reward));
  // The first: of a run of schema 1.
  const char* const key =
      written.contains("quern_panel") ? "quern_panel" : "quern_evaluation_set";  // schema 1
  QUERN_TRY(const auto format, base::get<std::int64_t>(written, key));
  if (format != 1)
    return base::fail(base::errc::version,
                      "an evaluation set of format {}, this build reads format 1", format);
  const base::json entries = written.value("items", base::json());
  if (!entries.is_array() || entries.empty())
    return base::fail(base::errc::corrupt, "an evaluation set without items");
  evaluation_set made(config, nullptr, reward);
  for (const base::json& entry : entries) {
    QUERN_TRY(const auto id, base::get<std::string>(entry, "task"));
    item one;
    QUERN_TRY(one.task, tasks.find(id));
    // Evaluation sets of older builds say nothing of what was shown.
    if (entry.contains("swapped")) {
      QUERN_TRY(one.with_exemplars, base::get<bool>(entry, "exemplars"));
      QUERN_TRY(one.swapped, base::get<bool>(entry, "swapped"));
      QUERN_TRY(one.best_own_e2, base::get<std::int64_t>(entry, "best_own"));
      const base::json shown = entry.value("shown", base::json());
      for (std::size_t k = 0; shown.is_array() && k < shown.size(); ++k)
        if (shown[k].is_string()) one.shown.push_back(shown[k].get<std::string>());
    }
    for (std::size_t side = 0; side < 2; ++side) {
      const base::json told = entry.value(side == 0 ? "first" : "last", base::json());
      answer& given = one.answers[side];
      given.there = true;
      QUERN_TRY(given.source, base::get<std::string>(told, "source"));
      QUERN_TRY(given.verdict, env::parse_verdict(base::dump(told.value("verdict", base::json()))));
      if (!told.contains("reward") || !told.at("reward").is_null()) {
        QUERN_TRY(given.reward, base::get<double>(told, "reward"));
      }
    }
    made.items_.push_back(std::move(one));
  }
  return made;
}

void evaluation_set::add_items(const std::vector<const book_task*>& tasks, std::int64_t count) {
  if (tasks.empty()) return;
  const auto tasks_count = static_cast<std::int64_t>(tasks.size());
  // Task by task, so that an evaluator prepares each of them once.
  for (std::int64_t at = 0; at < tasks_count; ++at) {
    for (std::int64_t round = 0; round * tasks_count + at < count; ++round) {
      item one;
      one.task = tasks[static_cast<std::size_t>(at)];
      // By default each task is asked with and without exemplars.
      if (shows_exemplars(at + round, config_->observe.evaluation_set_exemplars_share))
        one.own = seed_variants_of(*one.task);
      one.with_exemplars = !one.own.empty();
      items_.push_back(one);
      if (!config_->observe.evaluation_set_swapped || !one.with_exemplars) continue;
      one.swapped = true;
      items_.push_back(std::move(one));
    }
  }
}

std::vector<sample_id> evaluation_set::seed_variants_of(const book_task& task) {
  auto& shown = seed_variants_of_task_[&task];
  if (!shown.empty()) return shown;
  for (std::string& source : prompts_->seed_variants(task)) {
    if (!config_->observe.evaluation_set_exemplars_fastest &&
        std::ssize(shown) == config_->replay.exemplars_shown)
      break;
    const sample_id id = first_seed_variant + static_cast<sample_id>(seed_variants_.size());
    seed_variants_[id] = {&task, std::move(source), 0};
    shown.push_back(id);
  }
  return shown;
}

std::vector<evaluate_sample> evaluation_set::seed_variants() const {
  std::vector<evaluate_sample> orders;
  for (const auto& [id, shown] : seed_variants_) {
    orders.push_back({0, id, shown.task->id, shown.source, 0, 0, 0});
  }
  return orders;
}

void evaluation_set::scored(sample_id id, const env::verdict& verdict) {
  const auto known = seed_variants_.find(id);
  if (known != seed_variants_.end() && verdict.kind == env::verdict_kind::ok) {
    known->second.speedup_e2 = verdict.speedup_e2.value_or(0);
  }
}

std::vector<shown_exemplar> evaluation_set::timed(const item& one) const {
  std::vector<shown_exemplar> exemplars;
  for (const sample_id id : one.own) {
    const seed_variant& shown = seed_variants_.at(id);
    if (shown.speedup_e2 > 0) exemplars.push_back({0, {shown.source, shown.speedup_e2}});
  }
  const std::int64_t spare = std::ssize(exemplars) - config_->replay.exemplars_shown;
  if (spare < 0) exemplars.clear();
  std::sort(exemplars.begin(), exemplars.end(),
            [](const auto& a, const auto& b) { return a.text.speedup_e2 < b.text.speedup_e2; });
  if (spare > 0) exemplars.erase(exemplars.begin(), exemplars.begin() + spare);
  return exemplars;
}

const evaluation_set::item* evaluation_set::other_than(std::size_t index) const {
  std::vector<const item*> others;
  for (const item& one : items_)
    if (one.task != items_[index].task && !one.swapped && !timed(one).empty())
      others.push_back(&one);
  if (others.empty()) return nullptr;
  base::random_stream random(static_cast<std::uint64_t>(config_->observe.evaluation_set_seed),
                             "swapped", {static_cast<std::uint64_t>(index)});
  return others[random.below(others.size())];
}

void evaluation_set::freeze() {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    item& one = items_[i];
    std::vector<shown_exemplar> exemplars = timed(one);
    if (!exemplars.empty()) one.best_own_e2 = exemplars.back().text.speedup_e2;
    if (one.swapped && !exemplars.empty()) {
      const item* other = other_than(i);
      exemplars = other == nullptr ? std::vector<shown_exemplar>() : timed(*other);
    }
    const made_prompt made = prompts_->render(*one.task, exemplars);
    one.prompt = made.text;
    // A prompt that would be too long shows none.
    if (made.exemplars.empty()) exemplars.clear();
    for (const shown_exemplar& shown : exemplars)
      one.shown.push_back(base::to_hex(one.task->task->lane->identity(shown.text.code)));
  }
}

std::vector<generate_group> evaluation_set::questions() const {
  std::vector<generate_group> orders;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    generate_group order;
    order.group = first_evaluation_set + static_cast<sample_id>(i);
    order.samples = {order.group};
    order.prompt = items_[i].prompt;
    order.seed = config_->observe.evaluation_set_seed;
    order.max_tokens = static_cast<std::int32_t>(config_->policy.max_new_tokens);
    order.temperature = config_->policy.temperature;
    orders.push_back(std::move(order));
  }
  return orders;
}

base::expected<std::string> evaluation_set::task_of(sample_id sample) const {
  const sample_id index = sample - first_evaluation_set;
  if (index < 0 || index >= static_cast<sample_id>(items_.size())) {
    return base::fail(base::errc::not_found, "sample {} is not of the evaluation set", sample);
  }
  return items_[static_cast<std::size_t>(index)].task->id;
}

base::status evaluation_set::answered(evaluation_set_side side, sample_id sample,
                                      const env::verdict& verdict, const std::string& source) {
  QUERN_CHECK(task_of(sample));
  answer& given = items_[static_cast<std::size_t>(sample - first_evaluation_set)]
                      .answers[static_cast<std::size_t>(side)];
  given = {true, verdict, source, reward_.of(verdict)};
  return {};
}

bool evaluation_set::complete(evaluation_set_side side) const {
  return std::all_of(items_.begin(), items_.end(), [&](const item& one) {
    return one.answers[static_cast<std::size_t>(side)].there;
  });
}

std::optional<evaluation_set::kernel> evaluation_set::best(const std::string& task_id) const {
  const answer* fastest = nullptr;
  for (const item& one : items_) {
    if (one.task->id != task_id) continue;
    for (const answer& given : one.answers) {
      if (given.verdict.kind != env::verdict_kind::ok || !given.verdict.speedup_e2) continue;
      if (!fastest || *given.verdict.speedup_e2 > *fastest->verdict.speedup_e2) fastest = &given;
    }
  }
  if (!fastest) return std::nullopt;
  return kernel{*fastest->verdict.speedup_e2, fastest->source,
                base::dump(env::to_json(fastest->verdict))};
}

evaluation_set_half evaluation_set::half(bool held_out) const {
  evaluation_set_half result;
  for (const item& one : items_) {
    if (one.task->held_out != held_out || one.swapped) continue;
    const auto &before = one.answers[0].reward, &after = one.answers[1].reward;
    if (!before || !after) {
      ++result.left_out;
      continue;
    }
    result.first.push_back(*before);
    result.last.push_back(*after);
  }
  return result;
}

exemplar_use evaluation_set::use(evaluation_set_side side, bool held_out, bool swapped) const {
  exemplar_use counted;
  for (const item& one : items_) {
    if (one.task->held_out != held_out || one.swapped != swapped) continue;
    const answer& given = one.answers[static_cast<std::size_t>(side)];
    if (one.shown.empty() || one.best_own_e2 == 0 || !given.reward) continue;
    const bool copies =
        !given.source.empty() &&
        std::ranges::count(one.shown, base::to_hex(one.task->task->lane->identity(given.source))) >
            0;
    counted.add({given.verdict.kind == env::verdict_kind::ok, given.verdict.speedup_e2.value_or(0),
                 copies, one.best_own_e2});
  }
  return counted;
}

std::string evaluation_set::table() const {
  struct row {
    int asked = 0;
    int ok[2] = {0, 0};
    double speed[2] = {0, 0};
    std::int64_t best_e2 = 0;
  };
  std::map<std::pair<bool, std::string>, row> rows;
  std::map<std::string, int> unjudged;
  for (const item& one : items_) {
    if (one.swapped) continue;
    row& of_task = rows[{one.task->held_out, one.task->task->name}];
    ++of_task.asked;
    for (std::size_t side = 0; side < 2; ++side) {
      const answer& given = one.answers[side];
      if (!given.reward) ++unjudged[std::string(env::name_of(given.verdict.kind))];
      if (given.verdict.kind != env::verdict_kind::ok) continue;
      ++of_task.ok[side];
      of_task.speed[side] += static_cast<double>(given.verdict.speedup_e2.value_or(0)) / 100;
      of_task.best_e2 = std::max(of_task.best_e2, given.verdict.speedup_e2.value_or(0));
    }
  }
  constexpr auto line = "{:<34} {:>5}  {:>6} {:>6}  {:>8} {:>8}  {:>6}\n";
  std::string out =
      fmt::format("{:<34} {:>5}  {:>13}  {:>17}\n", "", "", "right answers", "mean speed-up") +
      fmt::format(line, "task", "asked", "first", "last", "first", "last", "best");
  for (const auto& [key, of_task] : rows) {
    const auto speed = [&](int side) {
      return of_task.ok[side] == 0 ? std::string("-")
                                   : fmt::format("{:.2f}", of_task.speed[side] / of_task.ok[side]);
    };
    const std::string best =
        of_task.best_e2 == 0 ? "-"
                             : fmt::format("{:.2f}", static_cast<double>(of_task.best_e2) / 100);
    out += fmt::format(line, key.second + (key.first ? " *" : ""), of_task.asked, of_task.ok[0],
                       of_task.ok[1], speed(0), speed(1), best);
  }
  out += "(first and last: with these weights; * held out: never trained on)\n";
  if (unjudged.empty()) return out;
  int answers = 0;
  std::string kinds;
  for (const auto& [kind, count] : unjudged) {
    answers += count;
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", kind, count);
  }
  return out + fmt::format(
                   "warning: evaluations told nothing about {} of {} answers ({}); they count as "
                   "not correct above and are left out below\n",
                   answers, 2 * items_.size(), kinds);
}

base::json evaluation_set::to_json() const {
  base::json list = base::json::array();
  for (const item& one : items_) {
    base::json entry = {{"task", one.task->id},
                        {"held_out", one.task->held_out},
                        {"exemplars", one.with_exemplars},
                        {"swapped", one.swapped},
                        {"shown", one.shown},
                        {"best_own", one.best_own_e2}};
    for (std::size_t side = 0; side < 2; ++side) {
      entry[side == 0 ? "first" : "last"] = {{"verdict", env::to_json(one.answers[side].verdict)},
                                             {"source", one.answers[side].source},
                                             {"reward", nullptr}};
      if (const auto& reward = one.answers[side].reward)
        entry[side == 0 ? "first" : "last"]["reward"] = *reward;
    }
    list.push_back(std::move(entry));
  }
  return {{"quern_evaluation_set", 1}, {"items", std::move(list)}};
}

}  // namespace quern::actors
