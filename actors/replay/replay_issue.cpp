// Issuing groups and forming batches.
#include <algorithm>
#include <numeric>

#include "actors/measured_as.hpp"
#include "actors/replay/replay.hpp"
#include "base/random.hpp"

namespace quern::actors {

/// Scouts are ordered for this many groups ahead, so that their timing hides behind generation.
constexpr std::int64_t scout_ahead = 6;

bool replay::shows_exemplars(std::int64_t sequence) const {
  return sequence >= config_.algorithm.groups_per_step && prompter_->wants_exemplars(sequence);
}

base::expected<generate_group> replay::order_of(const group_info& group, group_id id,
                                                std::vector<sample_id> samples) const {
  generate_group order;
  order.epoch = epoch();
  order.group = id;
  order.samples = std::move(samples);
  order.prompt = group.prompt;
  order.seed = config_.run.seed;
  order.max_tokens = static_cast<std::int32_t>(config_.policy.max_new_tokens);
  order.temperature = config_.policy.temperature;
  if (!recorded_) return order;
  // By their places in the whole group: a part of it that is made again gets the same texts.
  std::vector<std::size_t> members;
  for (const sample_id sample : order.samples) {
    const auto place = std::find(group.samples.begin(), group.samples.end(), sample);
    members.push_back(static_cast<std::size_t>(place - group.samples.begin()));
  }
  QUERN_TRY(order.recorded, recorded_->choose({group.task, group.prompt, id}, members));
  return order;
}

base::status replay::issue_groups(replay_orders& orders) {
  QUERN_TRY(const auto unparked, book_->unpark(installed_));
  for (const auto& [group, permit] : unparked)
    queue_generation(group);
  while (free_groups_ > 0 && !to_generate_.empty()) {
    const group_id id = to_generate_.front();
    to_generate_.pop_front();
    const auto group = groups_.find(id);
    if (group == groups_.end()) continue;
    const std::vector<sample_id> waiting = book_->in_state(sample_state::issued);
    std::vector<sample_id> missing;
    for (const sample_id sample : group->second.samples) {
      if (std::find(waiting.begin(), waiting.end(), sample) != waiting.end()) {
        missing.push_back(sample);
      }
    }
    if (missing.empty()) continue;
    QUERN_TRY(generate_group order, order_of(group->second, id, std::move(missing)));
    orders.generate.push_back(std::move(order));
    --free_groups_;
  }
  bool more = true;
  held_up_ = role_wait::unknown;
  while (more && free_groups_ > 0) {
    QUERN_TRY(more, issue_one(orders));
  }
  return {};
}

bool replay::has_exemplars(const book_task& task) const {
  const storage::score_buckets* buckets =
      archive_->buckets({task.id, prompter_->device_class(), measured_as(config_)});
  return buckets != nullptr && buckets->size() >= prompter_->exemplars_shown();
}

void replay::draw_scouts(const book_task& task, group_id turn) {
  if (scouting_.contains(task.id) || has_exemplars(task)) return;
  scouting& state = scouting_[task.id];
  for (std::string& source : prompter_->scouts(task)) {
    const sample_id id = next_scout_++;
    scouts_.emplace(id, std::pair(task.id, source));
    held_scouts_.push_back({epoch(), id, task.id, std::move(source), 0, 0, turn});
    ++state.missing;
  }
}

bool replay::goal_reached() const {
  return search_ ? search_->over(book_->unjudged()) : version() >= config_.learner.steps;
}

std::int64_t replay::next_group_size() const {
  if (search_) return search_->next_group(book_->unjudged());
  const std::int64_t needed =
      (config_.learner.steps - version()) * config_.algorithm.groups_per_step;
  return book_->window().charged() >= needed ? 0 : config_.algorithm.group_size;
}

base::expected<bool> replay::issue_one(replay_orders& orders) {
  const std::int64_t size = next_group_size();
  const auto held_up = [this](role_wait by) {
    held_up_ = by;
    return false;
  };
  if (size == 0) return held_up(role_wait::goal);
  const auto permit = book_->may_issue(installed_);
  if (!permit) return held_up(role_wait::window);
  // Where cores are few, scouts would slow the generator down while all wait for it.
  const bool scouts_wait = permit->sequence <= config_.algorithm.groups_per_step &&
                           !book_->in_state(sample_state::issued).empty();
  for (std::int64_t ahead = permit->sequence;
       !scouts_wait && ahead < permit->sequence + scout_ahead; ++ahead) {
    if (!shows_exemplars(ahead)) continue;
    QUERN_TRY(const book_task* next, tasks_.find(sampler_->task_of(ahead)));
    draw_scouts(*next, newest_group_ + 1 + ahead - permit->sequence);
  }
  QUERN_TRY(const book_task* task, tasks_.find(sampler_->task_of(permit->sequence)));
  std::vector<shown_exemplar> exemplars;
  if (shows_exemplars(permit->sequence)) {
    if (scouts_wait && !has_exemplars(*task)) return held_up(role_wait::exemplars);
    const auto state = scouting_.find(task->id);
    if (state != scouting_.end() && state->second.missing > 0 && !has_exemplars(*task))
      return held_up(role_wait::exemplars);
    QUERN_TRY(exemplars, prompter_->choose(*task, *archive_, permit->sequence, permit->version));
  }
  const made_prompt prompt = prompter_->render(*task, exemplars);
  storage::group_spec spec;
  spec.seq = permit->sequence;
  spec.task = task->id;
  spec.exemplars = prompt.exemplars;
  QUERN_TRY(spec.prompt_hash, blobs_.put(prompt.text));
  spec.template_hash = prompt.template_hash;
  spec.size = static_cast<int>(size);
  QUERN_TRY(const storage::issued_group issued, ledger_->issue(spec));
  group_info group{task->id, prompt.text, prompt.exemplars, {}};
  for (std::int64_t k = 0; k < spec.size; ++k) {
    group.samples.push_back(issued.first_sample + k);
    samples_[issued.first_sample + k].group = issued.group;
  }
  QUERN_CHECK(book_->issued(issued.group, *permit, group.samples));
  QUERN_TRY(generate_group order, order_of(group, issued.group, group.samples));
  orders.generate.push_back(std::move(order));
  groups_.emplace(issued.group, std::move(group));
  newest_group_ = issued.group;
  --free_groups_;
  return true;
}

std::map<std::int64_t, std::int64_t> replay::batch_ages() const {
  std::map<std::int64_t, std::int64_t> ages;
  const auto& chosen = book_->under_way();
  if (!chosen) return ages;
  for (const batch_group& group : chosen->groups) {
    for (const batch_member& member : group.members) {
      const auto& versions = samples_.at(member.sample).made.versions;
      if (!versions.empty()) ++ages[chosen->from - versions.front().version];
    }
  }
  return ages;
}

step_results replay::batch_results() const {
  step_results results;
  const auto& chosen = book_->under_way();
  if (!chosen) return results;
  results.step = chosen->from + 1;
  for (const batch_group& group : chosen->groups) {
    for (const batch_member& member : group.members) {
      const sample_info& sample = samples_.at(member.sample);
      results.add(std::string(env::name_of(sample.kind)), sample.reward.value_or(0));
    }
  }
  return results;
}

batch_shape replay::batch_form() const {
  batch_shape form;
  const auto& chosen = book_->under_way();
  if (!chosen) return form;
  for (const batch_group& group : chosen->groups) {
    for (const batch_member& member : group.members) {
      const sample_info& sample = samples_.at(member.sample);
      form.add(group.group, policy_tokens(sample.made.segments), sample.made.truncated,
               sample.reward.value_or(0));
    }
  }
  return form;
}

queue_depths replay::queues() const {
  queue_depths depths;
  std::int64_t used = 0;
  if (const auto& chosen = book_->under_way())
    for (const batch_group& group : chosen->groups)
      used += std::ssize(group.members);
  for (const sample_id id : book_->in_state(sample_state::generated))
    ++(samples_.at(id).judging ? depths.verdict : depths.room);
  depths.group = std::ssize(book_->in_state(sample_state::evaluated));
  const std::int64_t admitted = std::ssize(book_->in_state(sample_state::admitted));
  depths.step = admitted - used;
  depths.tokens = static_cast<std::int64_t>(book_->live()) - depths.verdict - depths.room -
                  depths.group - admitted;
  depths.scouts = std::ssize(scouts_);
  return depths;
}

base::expected<train_batch> replay::make_batch(const batch& chosen) {
  train_batch order;
  order.epoch = epoch();
  order.from = chosen.from;
  order.number = chosen.number;
  stepping_rewards_.clear();
  for (const batch_group& group : chosen.groups) {
    for (const batch_member& member : group.members) {
      const sample_info& info = samples_.at(member.sample);
      training_sample sample;
      sample.sample = member.sample;
      sample.group = group.group;
      sample.tokens = info.made.tokens;
      sample.segments = mask_head(info.made.segments, member.masked_tokens);
      sample.log_probs = info.made.log_probs;
      sample.versions = info.made.versions;
      stepping_rewards_.push_back(info.reward.value_or(0));
      order.samples.push_back(std::move(sample));
    }
  }
  std::vector<std::size_t> source(order.samples.size());
  std::iota(source.begin(), source.end(), std::size_t{0});
  if (config_.learner.permute_rewards) {
    base::random_stream random(static_cast<std::uint64_t>(config_.run.seed), "permute rewards",
                               {static_cast<std::uint64_t>(chosen.from)});
    for (std::size_t i = source.size(); i > 1; --i)
      std::swap(source[i - 1], source[random.below(i)]);
  }
  for (std::size_t i = 0; i < order.samples.size(); ++i) {
    const double reward = stepping_rewards_[source[i]];
    order.samples[i].reward =
        loss_.smoothing_clip > 0 ? smoothing_.smooth(reward, loss_.smoothing_clip) : reward;
  }
  return order;
}

}  // namespace quern::actors
