#include "actors/replay/prompter.hpp"

#include <set>

#include "base/program.hpp"
#include "base/random.hpp"
#include "env/grammar/probe.hpp"
#include "env/grammar/variants.hpp"

namespace quern::actors {
prompter::prompter(const run_config& config, env::prompt_template form, env::prompt_facts facts)
    : seed_(static_cast<std::uint64_t>(config.run.seed)),
      without_share_(config.replay.without_exemplars_share),
      none_(config.replay.exemplars == "none"),
      scouts_(config.replay.seed_variants),
      protocol_(config.env.protocol),
      form_(std::move(form)),
      facts_(std::move(facts)) {
  options_.temperature = config.replay.bucket_temperature;
}

base::expected<prompter> prompter::make(const run_config& config, std::string device_class) {
  QUERN_TRY(const auto folder, base::share_folder("env/prompts"));
  QUERN_TRY(env::prompt_template form,
            env::prompt_template::load(folder / (config.policy.template_name + ".prompt")));
  env::prompt_facts facts{std::move(device_class), env::default_restrictions(env::lane::cpp)};
  prompter made(config, std::move(form), std::move(facts));
  if (!made.none_) {
    QUERN_TRY(made.options_.strategy, parse_exemplar_strategy(config.replay.exemplars));
  }
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
  const storage::score_buckets* buckets =
      archive.buckets({task.id, facts_.device_class, protocol_});
  if (buckets == nullptr) return shown;
  const base::random_stream random(seed_, "exemplar", {static_cast<std::uint64_t>(sequence)});
  QUERN_TRY(const auto picks, choose_exemplars(buckets->as_of(version), options_, random));
  for (const exemplar_pick& pick : picks) {
    QUERN_TRY(const std::int64_t id, buckets->draw(pick.bucket, pick.k));
    QUERN_TRY(const storage::variant variant, archive.get(id));
    QUERN_TRY(std::string code, archive.text(variant));
    shown.push_back({id, {std::move(code), variant.speedup_e2.value_or(0)}});
  }
  return shown;
}

std::vector<std::string> prompter::scouts(const book_task& task) const {
  std::vector<std::string> sources;
  if (none_ || scouts_ == 0 || task.composition.steps.empty()) return sources;
  const env::composition_probe probe(task.composition);
  const env::variant_supply supply(probe);
  const auto& correct = supply.correct();
  base::random_stream random(seed_, "scout", {base::xxh128(task.id).low});
  std::set<std::size_t> chosen;
  const std::size_t wanted =
      std::min<std::size_t>(static_cast<std::size_t>(scouts_), correct.size());
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
  made.template_hash = form_.hash();
  return made;
}

}  // namespace quern::actors
