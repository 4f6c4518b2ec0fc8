#include "actors/orchestrator/run_head.hpp"

#include <fmt/format.h>

#include "base/log.hpp"

namespace quern::actors {

finished_step finished_step_of(const orchestrator& memory, const step_done& step) {
  return {step.weights.version,   memory.incarnation(), memory.in_flight(), memory.batch_ages(),
          memory.batch_results(), memory.batch_form(),  memory.queues(),    step.metrics};
}

run_head::run_head(head_facts facts, worker_book workers, orchestrator& memory,
                   run_observer& observer, role_board& roles)
    : facts_(std::move(facts)),
      workers_(std::move(workers)),
      memory_(memory),
      observer_(observer),
      roles_(roles) {}

void run_head::fail_run(std::string message) {
  end_with(fatal_problem{"orchestrator", std::move(message)});
}

void run_head::advance_soon() {
  if (advancing_ || ended()) return;
  advancing_ = true;
  effect(advance_later{});
}

void run_head::settle(const base::status& result) {
  if (!result) return fail_run(result.error().message);
  advance_soon();
}

// ---- workers that come and go ----

welcome run_head::greet(const std::string& place) const {
  const starting_point& start = memory_.start();
  welcome answer;
  answer.incarnation = start.incarnation;
  answer.version = start.version;
  answer.checkpoint = start.model;
  answer.optimizer = start.optimizer;
  answer.reference = start.reference;
  answer.config_yaml = facts_.config_yaml;
  answer.weights_folder = facts_.weights_folder;
  answer.rendezvous = fmt::format("{}/learners-{}", place, answer.incarnation);
  return answer;
}

/// To rank 0, which is there whenever a link is due.
void run_head::open_links() {
  for (const std::string& address : workers_.take_due_links())
    if (const auto first = workers_.first_rank())
      effect(to_learner{*first, open_weight_link{memory_.incarnation(), address}});
}

welcome run_head::generator_came(worker_id who, const std::string& place) {
  welcome answer = greet(place);
  answer.weights_link = workers_.generator_came(who, answer.incarnation, place);
  open_links();
  return answer;
}

void run_head::rank_came(worker_id who, std::int32_t rank) {
  if (workers_.has_rank(rank)) lose_learner();
  workers_.rank_came(who, rank, memory_.start().version);
}

welcome run_head::learner_welcome(const std::string& place) const {
  return greet(place);
}

void run_head::worker_gone(worker_id who) {
  if (ended()) return;
  const lost_worker lost = workers_.gone(who);
  switch (lost.was) {
    case lost_worker::kind::not_admitted:
      return;
    case lost_worker::kind::generator:
      base::log_warn("orchestrator", "a generator is gone; {} samples are made again",
                     lost.samples.size());
      memory_.generator_lost(lost.samples);
      return advance_soon();
    case lost_worker::kind::rank:
      if (facts_.ranks > 1)
        base::log_warn("orchestrator", "rank {} of the learner is gone: all {} start again",
                       lost.rank, facts_.ranks);
      return lose_learner();
  }
}

void run_head::lose_learner() {
  learner_loss loss = workers_.lose_learner();
  if (!loss.fatal.empty()) return fail_run(std::move(loss.fatal));
  // It may hang in a collective with the lost one.
  for (const worker_id who : loss.ranks)
    effect(send_away{who, true});
  if (facts_.spread) effect(forget_rendezvous_place{});
  for (const worker_id who : loss.generators)
    effect(send_away{who, false});
  settle(memory_.learner_lost());
  workers_.incarnation_began(memory_.version());
  effect(to_dispatch{incarnation_began{memory_.incarnation()}});
}

// ---- messages of workers ----

void run_head::on_credit(worker_id from, const generation_credit& credit) {
  const auto news = workers_.on_credit(from, credit);
  if (!news) return;
  observer_.generated(*news);
  advance_soon();
}

void run_head::on_installed(worker_id from, const weights_installed& now) {
  const auto news = workers_.on_installed(from, now);
  if (!news.known) return;
  if (news.newer) effect(to_generator{from, *news.newer});
  settle(memory_.on_weights(now.incarnation, now.version, now.hash));
}

void run_head::on_generated(worker_id from, const generated_sample& sample) {
  workers_.on_generated(from, sample.sample);
  settle(memory_.on_generated(sample));
}

void run_head::on_ready(const learner_ready& ready) {
  if (ready.incarnation != memory_.incarnation()) return;
  memory_.learner_ready(true);
  workers_.learner_is_ready(ready.version);
  open_links();
  settle(memory_.on_weights(ready.incarnation, ready.version, ready.hash));
}

void run_head::announce(const weights_ready& weights) {
  for (const worker_id who : workers_.announce(weights))
    effect(to_generator{who, weights});
}

void run_head::on_step(const step_done& step) {
  if (step.incarnation != memory_.incarnation()) return;
  const bool to_be_announced = workers_.on_step(step);
  if (step.left_out)
    observer_.left_out();
  else
    observer_.stepped(finished_step_of(memory_, step));
  const base::status result = memory_.on_step(step);
  if (to_be_announced) announce(step.weights);
  memory_.learner_ready(true);
  settle(result);
}

void run_head::on_offered(const weights_ready& offered) {
  if (offered.incarnation != memory_.incarnation()) return;
  if (workers_.on_offered(offered.version)) announce(offered);
}

void run_head::on_checkpoint(const checkpoint_saved& saved) {
  if (saved.incarnation != memory_.incarnation()) return;
  workers_.on_checkpoint(saved.version);
  settle(memory_.on_checkpoint(saved));
}

// ---- messages of control's own actors ----

void run_head::on_verdict(const sample_verdict& verdict) {
  settle(memory_.on_verdict(verdict));
}

void run_head::on_withdrawn(const jobs_withdrawn& news) {
  memory_.on_withdrawn(news);
  advance_soon();
}

void run_head::on_drain(const drain& order) {
  memory_.drain(static_cast<ending>(order.ending_kind));
  effect(to_dispatch{order});
  // From now on nobody is to be kept at work.
  roles_.pause(true);
  advance_soon();
}

void run_head::on_problem(const fatal_problem& problem) {
  base::log_error(problem.where, "{}", problem.message);
  fail_run(problem.where + ": " + problem.message);
}

// ---- what is done next ----

void run_head::send_completions(const std::vector<completion_order>& orders) {
  for (const completion_order& order : orders) {
    auto read = read_completion(order, facts_.rollout);
    if (auto* candidate = std::get_if<evaluate_sample>(&read)) {
      effect(to_dispatch{std::move(*candidate)});
    } else {
      settle(memory_.on_verdict(std::get<sample_verdict>(read)));
    }
  }
}

void run_head::send_to_ranks(const orchestrator_orders& orders) {
  // A checkpoint is asked for before the next step, so that it holds the version it is named by.
  for (const worker_id rank : workers_.ranks()) {
    if (orders.save) effect(to_learner{rank, *orders.save});
    if (orders.train) effect(to_learner{rank, *orders.train});
  }
  if (orders.save) workers_.sent_checkpoint(orders.save->version);
  if (orders.train) workers_.sent_step(orders.train->from);
}

void run_head::send_orders(orchestrator_orders& orders) {
  for (const std::uint64_t lease : orders.committed_leases)
    effect(to_dispatch{verdict_committed{lease}});
  for (generate_group& group : orders.generate) {
    const auto target = workers_.take_group(group.samples);
    if (!target) return fail_run("a group was issued that no generator asked for");
    effect(to_generator{*target, std::move(group)});
  }
  for (evaluate_sample& seed_variant : orders.seed_variant)
    effect(to_dispatch{std::move(seed_variant)});
  send_completions(orders.judge);
  send_to_ranks(orders);
  observer_.take_news(memory_);
  if (orders.end) end_with(*orders.end);
}

void run_head::advance() {
  advancing_ = false;
  if (ended()) return;
  const offered_work offer = workers_.offer(memory_.version());
  memory_.generators(offer.free_groups, offer.oldest);
  auto orders = memory_.advance();
  if (!orders) return fail_run(orders.error().message);
  const role_wait held_up = memory_.held_up();
  if (held_up != role_wait::unknown) roles_.waits_for(run_role::generator, held_up);
  send_orders(*orders);
  if (const auto needed = workers_.verdicts_wanted(memory_.wants_verdicts()))
    effect(to_supervisor{evaluators_needed{*needed}});
}

void run_head::look() {
  if (ended()) return;
  observer_.look();
  if (const auto late = workers_.look()) {
    base::log_error("orchestrator", "{}; it is killed and starts again from the last checkpoint",
                    late->text());
    lose_learner();
  }
  if (const auto first = workers_.to_be_asked_for_offer(memory_.stepping()))
    effect(to_learner{*first, offer_weights{memory_.incarnation()}});
}

}  // namespace quern::actors
