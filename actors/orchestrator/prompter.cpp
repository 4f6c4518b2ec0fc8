#include "actors/orchestrator/prompter.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "actors/allowed_by.hpp"
#include "actors/config/device_class.hpp"
#include "actors/measured_as.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "env/grammar/probe.hpp"
#include "env/grammar/variants.hpp"
#include "env/task/suite.hpp"

namespace quern::actors {
namespace {

/// What exemplars of a prompt are chosen from; no buckets: the task has no scored variant.
struct candidates {
  exemplar_source source = exemplar_source::all;
  const storage::score_buckets* buckets = nullptr;
  std::vector<storage::bucket_summary> filled;  ///< as of the prompt's version
};

storage::variants_of whose(exemplar_source source) {
  switch (source) {
    case exemplar_source::all:
      return storage::variants_of::everybody;
    case exemplar_source::seeds:
      return storage::variants_of::brought_along;
    case exemplar_source::own:
    case exemplar_source::best:
      return storage::variants_of::the_policy;
  }
  return storage::variants_of::everybody;
}

/// The variants of `source`, or all of the task where that has fewer than `needed`.
candidates candidates_for(const storage::archive& archive, const storage::variant_key& key,
                          exemplar_source source, std::int64_t version, std::int64_t needed) {
  candidates found{source, archive.buckets(key, whose(source)), {}};
  if (found.buckets != nullptr) found.filled = found.buckets->as_of(version);
  std::int64_t count = 0;
  for (const storage::bucket_summary& bucket : found.filled)
    count += bucket.count;
  if (source == exemplar_source::all || count >= needed) return found;
  return candidates_for(archive, key, exemplar_source::all, version, needed);
}

}  // namespace

base::expected<env::prompt_template> prompter::load_template(const std::string& name) {
  QUERN_TRY(const auto folder, base::share_folder("env/prompts"));
  std::vector<std::string> known;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (entry.path().extension() == ".prompt") known.push_back(entry.path().stem().string());
  }
  std::sort(known.begin(), known.end());
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::vector<std::string_view> names(known.begin(), known.end());
    return base::fail(base::errc::not_found,
                      "policy.template_name: no template '{}'{}; known in {}: {}", name,
                      base::did_you_mean(name, names), folder.string(), fmt::join(known, ", "));
  }
  return env::prompt_template::load(folder / (name + ".prompt"));
}

prompter::prompter(const run_config& config, env::prompt_template form, env::prompt_facts facts,
                   prompt_length length)
    : seed_(static_cast<std::uint64_t>(config.run.seed)),
      without_share_(config.replay.without_exemplars_share),
      none_(config.replay.exemplars == "none"),
      seed_variants_(config.replay.seed_variants),
      protocol_(measured_as(config)),
      form_(std::move(form)),
      facts_(std::move(facts)),
      length_(std::move(length)) {
  options_.count = config.replay.exemplars_shown;
  options_.temperature = config.replay.bucket_temperature;
}

base::expected<prompter> prompter::make(const run_config& config, std::string device_class) {
  QUERN_TRY(env::prompt_template form, load_template(config.policy.template_name));
  QUERN_TRY(prompt_length length, prompt_length::make(config));
  env::suite_policy allowed;
  if (config.tasks.source == "suite") {
    QUERN_TRY(const env::suite members, suite_of(config));
    allowed = members.policy;
  }
  env::prompt_facts facts{
      std::move(device_class),
      env::default_restrictions(lane_of(config), allowed_by(config, allowed), on_gpus(config))};
  facts.baseline = env::parse_baseline(config.env.baseline).value_or(facts.baseline);
  prompter made(config, std::move(form), std::move(facts), std::move(length));
  if (!made.none_) {
    QUERN_TRY(made.options_.strategy, parse_exemplar_strategy(config.replay.exemplars));
  }
  QUERN_TRY(made.schedule_, exemplar_schedule::parse(config.replay.exemplar_schedule));
  return made;
}

bool prompter::wants_exemplars(std::int64_t sequence) const {
  if (none_) return false;
  base::random_stream random(seed_, "with exemplars", {static_cast<std::uint64_t>(sequence)});
  return !random.chance(without_share_);
}

base::expected<std::vector<shown_exemplar>> prompter::choose(const book_task& task,
                                                             const storage::archive& archive,
                                                             std::int64_t sequence,
                                                             std::int64_t version) const {
  std::vector<shown_exemplar> shown;
  const storage::variant_key key{task.id, facts_.device_class, protocol_};
  const candidates from =
      candidates_for(archive, key, schedule_.at(version), version, exemplars_shown());
  if (from.buckets == nullptr) return shown;
  exemplar_options options = options_;
  options.highest_only = from.source == exemplar_source::best;
  const base::random_stream random(seed_, "exemplar", {static_cast<std::uint64_t>(sequence)});
  QUERN_TRY(const auto picks, choose_exemplars(from.filled, options, random));
  for (const exemplar_pick& pick : picks) {
    QUERN_TRY(const std::int64_t id, from.buckets->draw(pick.bucket, pick.k));
    QUERN_TRY(const storage::variant variant, archive.get(id));
    auto code = archive.text(variant);
    if (!code) {
      // A lost text costs this prompt an exemplar, not the run.
      base::log_warn("prompter", "variant {} is not shown: {}", id, code.error().message);
      continue;
    }
    shown.push_back({id, {std::move(*code), variant.speedup_e2.value_or(0)}});
  }
  if (std::ssize(shown) < exemplars_shown()) shown.clear();
  return shown;
}

std::vector<std::string> prompter::seed_variants(const book_task& task) const {
  std::vector<std::string> sources;
  if (none_ || seed_variants_ == 0 || task.composition.steps.empty() ||
      task.task->lane->grammar == nullptr)
    return sources;
  const env::composition_probe probe(task.composition);
  const env::variant_supply supply(probe, *task.task->lane->grammar());
  const auto& correct = supply.correct();
  base::random_stream random(seed_, "scout", {base::xxh128(task.id).low});
  std::set<std::size_t> chosen;
  const std::size_t wanted =
      std::min<std::size_t>(static_cast<std::size_t>(seed_variants_), correct.size());
  while (chosen.size() < wanted) {
    if (const std::size_t pick = random.below(correct.size()); chosen.insert(pick).second) {
      sources.push_back(correct[pick].source);
    }
  }
  return sources;
}

made_prompt prompter::render(const book_task& task,
                             const std::vector<shown_exemplar>& exemplars) const {
  made_prompt made;
  std::vector<env::exemplar> texts;
  for (const shown_exemplar& exemplar : exemplars) {
    made.exemplars.push_back(exemplar.variant);
    texts.push_back(exemplar.text);
  }
  made.text = env::render_prompt(form_, *task.task, texts, facts_);
  if (!texts.empty() && !length_.fits(made.text)) {
    made.exemplars.clear();
    made.text = env::render_prompt(form_, *task.task, {}, facts_);
  }
  made.template_hash = form_.hash();
  return made;
}

base::status prompter::check(const std::vector<book_task>& tasks) const {
  for (const book_task& task : tasks) {
    const std::int64_t tokens = length_.of(render(task, {}).text);
    if (tokens <= length_.limit()) continue;
    return base::fail(base::errc::invalid_argument,
                      "policy.max_prompt_tokens: the prompt of task {} has {} tokens without any "
                      "exemplar, the limit is {}: raise it, choose a shorter "
                      "policy.template_name, or leave the task out",
                      task.task->name, tokens, length_.limit());
  }
  return {};
}

}  // namespace quern::actors
