#include "actors/orchestrator/evaluation_set_head.hpp"

#include "env/verdict/verdict.hpp"

namespace quern::actors {

evaluation_set_head::evaluation_set_head(evaluation_set_side_setup setup, evaluation_set& questions,
                                         worker_book workers)
    : setup_(std::move(setup)), questions_(questions), workers_(std::move(workers)) {
  if (setup_.side == evaluation_set_side::first) {
    auto seed_variants = questions_.seed_variants();
    seed_variants_ = seed_variants_left_ = seed_variants.size();
    if (seed_variants_ > 0) setup_.timing(0, seed_variants_);
    for (evaluate_sample& seed_variant : seed_variants)
      effect(to_dispatch{std::move(seed_variant)});
  }
  if (seed_variants_left_ == 0) fix_questions();
}

void evaluation_set_head::fix_questions() {
  if (setup_.side == evaluation_set_side::first) questions_.freeze();
  for (generate_group& group : questions_.questions())
    to_ask_.push_back(std::move(group));
}

void evaluation_set_head::ask() {
  while (!ended() && seed_variants_left_ == 0 && !to_ask_.empty()) {
    const auto target = workers_.take_group(to_ask_.front().samples);
    if (!target) return;
    generate_group group = std::move(to_ask_.front());
    to_ask_.pop_front();
    asked_.emplace(group.samples.front(), group);
    effect(to_generator{*target, std::move(group)});
  }
}

welcome evaluation_set_head::generator_came(worker_id who, const std::string& place) {
  welcome answer;
  answer.checkpoint = setup_.model;
  answer.config_yaml = setup_.config_yaml;
  answer.weights_folder = setup_.weights_folder;
  answer.weights_link = workers_.generator_came(who, answer.incarnation, place);
  return answer;
}

void evaluation_set_head::worker_gone(worker_id who) {
  for (const sample_id sample : workers_.gone(who).samples)
    if (auto group = asked_.extract(sample)) to_ask_.push_back(std::move(group.mapped()));
  ask();
}

void evaluation_set_head::on_credit(worker_id from, const generation_credit& credit) {
  if (workers_.on_credit(from, credit)) ask();
}

void evaluation_set_head::on_installed(worker_id from, const weights_installed& now) {
  if (workers_.on_installed(from, now).known) ask();
}

void evaluation_set_head::on_generated(worker_id from, const generated_sample& sample) {
  workers_.on_generated(from, sample.sample);
  // Another one is of a generator that had been given up.
  if (asked_.erase(sample.sample) == 0) return;
  const auto task = questions_.task_of(sample.sample);
  if (!task) return fail(task.error().message);
  auto read =
      read_completion({0, sample.sample, *task, sample.text, 0, 0, sample.sample}, setup_.rollout);
  if (auto* candidate = std::get_if<evaluate_sample>(&read)) {
    sources_[sample.sample] = candidate->source;
    effect(to_dispatch{std::move(*candidate)});
  } else {
    on_verdict(std::get<sample_verdict>(read));
  }
}

void evaluation_set_head::on_verdict(const sample_verdict& verdict) {
  if (verdict.lease != 0) effect(to_dispatch{verdict_committed{verdict.lease}});
  if (!verdict.counts && !verdict.exhausted) return;
  const auto value = env::parse_verdict(verdict.json);
  if (!value) return fail(value.error().message);
  if (verdict.sample < first_evaluation_set) return on_seed_variant(verdict, *value);
  const auto taken =
      questions_.answered(setup_.side, verdict.sample, *value, sources_[verdict.sample]);
  if (!taken) return fail(taken.error().message);
  setup_.progress(++answered_);
  if (questions_.complete(setup_.side))
    end_with(drained{static_cast<std::uint8_t>(ending::stop), true});
}

void evaluation_set_head::on_seed_variant(const sample_verdict& verdict,
                                          const env::verdict& value) {
  questions_.scored(verdict.sample, value);
  --seed_variants_left_;
  setup_.timing(seed_variants_ - seed_variants_left_, seed_variants_);
  if (seed_variants_left_ > 0) return;
  fix_questions();
  ask();
}

void evaluation_set_head::on_drain(const drain& order) {
  end_with(drained{order.ending_kind, false});
}

void evaluation_set_head::on_problem(const fatal_problem& problem) {
  fail(problem.where + ": " + problem.message);
}

void evaluation_set_head::advance() {
  ask();
}

}  // namespace quern::actors
