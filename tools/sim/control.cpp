// Messages to the two heads, and their effects.
#include "tools/sim/control.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "actors/defaults.hpp"

namespace quern::sim {

namespace {

/// As short as all times here.
constexpr actors::step_limits hang_limits{
    2'000'000'000, 2'000'000'000, 1'000'000'000, 1, 1'000'000'000, 4, 60'000'000'000};

}  // namespace

actors::evaluation_scheduler::limits scheduler_limits(const scenario& plan) {
  actors::retry_limits retries{2, 3, 1, 1};
  // The result of a deterministic run must not depend on how many hosts died.
  if (plan.deterministic) retries.infra_error = 1'000'000;
  actors::evaluation_scheduler::limits limits({retries, lease_ns});
  // As the dispatch actor has it: the orchestrator keeps back what is beyond.
  limits.queue.queue = actors::defaults::evaluation_queue;
  limits.pause.patience_ns = 400'000'000;
  return limits;
}

/// What dies with a control process.
struct control::process_life {
  storage::run_directory directory;
  std::unique_ptr<actors::orchestrator> memory;
  std::shared_ptr<actors::role_board> roles;
  std::shared_ptr<actors::device_board> board = std::make_shared<actors::device_board>();
  actors::run_observer nobody;
  std::optional<actors::run_head> head;
  std::optional<actors::dispatch_head> dispatch;
  std::optional<gateway_model> gateway;
  std::map<actors::worker_id, worker_place> workers;
  actors::worker_id next_worker = 1;

  explicit process_life(storage::run_directory opened) : directory(std::move(opened)) {}
};

control::control(event_queue& events, oracle& truth, const scenario& plan, wires out)
    : events_(events),
      truth_(truth),
      plan_(plan),
      out_(std::move(out)),
      config_(config_of(plan)),
      folder_(make_run_folder()) {}

control::~control() = default;

// ---- lives ----

void control::boot() {
  const auto root = folder_.path() / "run";
  auto opened =
      life_ == 0 ? storage::run_directory::create(root, "quern_config: 2\n", base::json::object())
                 : storage::run_directory::open(root);
  ++life_;
  if (!must(opened)) return;
  auto now = std::make_unique<process_life>(std::move(*opened));
  auto memory = actors::orchestrator::open(config_, now->directory, shared_tasks(),
                                           std::string(device_class), plan_.deterministic);
  if (!must(memory)) return;
  now->memory = std::move(*memory);
  now->roles = std::make_shared<actors::role_board>(events_.clock());
  actors::worker_book workers({false, config_.actors.restarts},
                              actors::step_watch(hang_limits, events_.clock()), *now->roles,
                              now->memory->version());
  now->head.emplace(
      actors::head_facts{"", "", {config_.env.protocol, std::string(device_class)}, false, 1},
      std::move(workers), *now->memory, now->nobody, *now->roles);
  const incarnation_id incarnation = now->memory->incarnation();
  now->dispatch.emplace(
      actors::dispatch_head::settings{&config_, &shared_tasks(), std::string(device_class),
                                      incarnation, lease_ns / 1'000'000, now->board, now->roles},
      scheduler_limits(plan_));
  now->gateway.emplace(events_, truth_, *now->dispatch, incarnation, out_.to_host,
                       [this] { carry_out(); });
  life_now_ = std::move(now);
}

void control::die() {
  ++life_;
  life_now_.reset();
}

void control::soon(std::function<void()> what) {
  events_.in(0, [this, life = life_, what = std::move(what)] {
    if (!alive() || life != life_ || !truth_.violation.empty()) return;
    what();
    carry_out();
  });
}

// ---- effects ----

/// The head knows what an incarnation begins with and what follows. In deterministic mode groups
/// that are made again come from older versions, too.
void control::tell_lineage() {
  auto& memory = *life_now_->memory;
  if (!plan_.deterministic ||
      std::exchange(told_incarnation_, memory.incarnation()) == memory.incarnation())
    return;
  const auto hash = read_weights(memory.start().model);
  if (!must(hash)) return;
  for (const auto* w = truth_.all_weights.at(*hash).get(); w != nullptr; w = w->before.get())
    must(memory.on_weights(memory.incarnation(), w->version, w->hash));
}

void control::carry_out() {
  if (!alive()) return;
  tell_lineage();
  for (auto& effect : life_now_->head->take_effects())
    carry_head(effect);
  for (auto& effect : life_now_->dispatch->take_effects())
    carry_dispatch(effect);
}

void control::send_generate(worker_place to, actors::generate_group& group) {
  if (group.group > newest_group_) check_issue(group.group);
  newest_group_ = std::max(newest_group_, group.group);
  generation_request request{std::move(group), 0};
  if (const auto* permit = life_now_->memory->permit_of(request.group.samples.front()))
    request.version = permit->version;
  out_.generate(to, std::move(request));
}

void control::carry_head(actors::head_effect& effect) {
  const auto place = [this](actors::worker_id who) { return life_now_->workers.at(who); };
  if (auto* one = std::get_if<actors::to_generator>(&effect)) {
    if (auto* group = std::get_if<actors::generate_group>(&one->message))
      send_generate(place(one->who), *group);
    else
      out_.install(place(one->who), std::get<actors::weights_ready>(one->message));
  } else if (auto* work = std::get_if<actors::to_learner>(&effect)) {
    if (const auto* batch = std::get_if<actors::train_batch>(&work->message)) {
      check_batch(*batch);
      out_.train(place(work->who), *batch);
    } else if (const auto* save = std::get_if<actors::save_checkpoint>(&work->message)) {
      out_.save(place(work->who), *save);
    } else if (const auto* offer = std::get_if<actors::offer_weights>(&work->message)) {
      out_.offer(place(work->who), *offer);
    }
  } else if (const auto* job = std::get_if<actors::to_dispatch>(&effect)) {
    soon([this, job = *job] { give_dispatch(job); });
  } else if (const auto* news = std::get_if<actors::to_supervisor>(&effect)) {
    hear_end(*news);
  } else if (const auto* gone = std::get_if<actors::send_away>(&effect)) {
    out_.end(place(gone->who));
  } else if (std::holds_alternative<actors::advance_later>(effect)) {
    soon([this] { life_now_->head->advance(); });
  }
}

void control::hear_end(const actors::to_supervisor& effect) {
  if (const auto* problem = std::get_if<actors::fatal_problem>(&effect.message))
    truth_.violated("control: " + problem->message);
  if (std::holds_alternative<actors::drained>(effect.message)) truth_.run_over = true;
}

void control::give_dispatch(const actors::to_dispatch& effect) {
  const auto now = events_.now();
  auto& dispatch = *life_now_->dispatch;
  if (const auto* job = std::get_if<actors::evaluate_sample>(&effect.message)) {
    truth_.source_of[job->sample] = base::xxh128(job->source);
    truth_.attempts[job->sample] = 0;
    truth_.failed_at.erase(job->sample);
    dispatch.on_job(*job, now);
  } else if (const auto* done = std::get_if<actors::verdict_committed>(&effect.message)) {
    dispatch.on_committed(*done);
  } else if (const auto* began = std::get_if<actors::incarnation_began>(&effect.message)) {
    dispatch.on_incarnation(*began);
  } else {
    dispatch.on_drain(now);
  }
}

void control::carry_dispatch(actors::dispatch_effect& effect) {
  if (const auto* frame = std::get_if<actors::to_host>(&effect)) {
    life_now_->gateway->carry(*frame);
  } else if (const auto* news = std::get_if<actors::to_run_head>(&effect)) {
    soon([this, news = *news] { give_head(news); });
  } else if (const auto* wake = std::get_if<actors::wake_at>(&effect)) {
    events_.in(wake->when - events_.now(), [this, life = life_] {
      if (!alive() || life != life_) return;
      life_now_->dispatch->on_time(events_.now());
      carry_out();
    });
  }
}

void control::give_head(const actors::to_run_head& effect) {
  auto& head = *life_now_->head;
  if (const auto* verdict = std::get_if<actors::sample_verdict>(&effect.message)) {
    check_verdict(*verdict);
    head.on_verdict(*verdict);
  } else if (const auto* withdrawn = std::get_if<actors::jobs_withdrawn>(&effect.message)) {
    head.on_withdrawn(*withdrawn);
  } else {
    head.on_problem(std::get<actors::fatal_problem>(effect.message));
  }
}

// ---- messages ----

actors::worker_id control::number_of(worker_place from) const {
  for (const auto& [number, place] : life_now_->workers)
    if (place == from) return number;
  return 0;
}

void control::on_hello(worker_place from) {
  if (!alive()) return;
  const auto number = life_now_->next_worker++;
  life_now_->workers[number] = from;
  auto& head = *life_now_->head;
  actors::welcome answer;
  if (from.generator < 0) {
    head.rank_came(number, 0);
    answer = head.learner_welcome("unix:/x");
  } else {
    answer = head.generator_came(number, "unix:/x");
  }
  carry_out();
  out_.welcome(from, answer);
}

void control::on_down(worker_place from) {
  if (!alive()) return;
  if (const auto number = number_of(from)) life_now_->head->worker_gone(number);
  carry_out();
}

void control::on_sample(worker_place from, const actors::generated_sample& sample) {
  if (!alive()) return;
  life_now_->head->on_generated(number_of(from), sample);
  carry_out();
}

void control::on_installed(worker_place from, const actors::weights_installed& now) {
  if (!alive()) return;
  life_now_->head->on_installed(number_of(from), now);
  carry_out();
}

void control::on_credit(worker_place from, const actors::generation_credit& credit) {
  if (!alive()) return;
  life_now_->head->on_credit(number_of(from), credit);
  carry_out();
}

void control::on_ready(worker_place, const actors::learner_ready& ready) {
  if (!alive()) return;
  life_now_->head->on_ready(ready);
  carry_out();
}

void control::on_step(worker_place, const actors::step_done& step) {
  if (!alive()) return;
  life_now_->head->on_step(step);
  const auto& memory = *life_now_->memory;
  if (step.incarnation == memory.incarnation() &&
      memory.version() > truth_.steps_made[step.incarnation])
    truth_.violated(fmt::format("control counts {} steps where the learner has made {}",
                                memory.version(), truth_.steps_made[step.incarnation]));
  carry_out();
}

void control::on_offered(worker_place, const actors::weights_ready& offered) {
  if (!alive()) return;
  life_now_->head->on_offered(offered);
  carry_out();
}

void control::on_saved(worker_place, const actors::checkpoint_saved& saved) {
  if (!alive()) return;
  life_now_->head->on_checkpoint(saved);
  carry_out();
}

void control::on_host(int host, const env::message& what) {
  if (!alive()) return;
  life_now_->gateway->on_frame(host, what);
  carry_out();
}

void control::tick() {
  if (!alive()) return;
  life_now_->gateway->tick();
  life_now_->head->look();
  carry_out();
  if (++ticks_ % 5 == 0) {
    const auto counts = life_now_->memory->counts();
    if (must(counts) && !counts->law_holds()) truth_.violated("the law does not hold");
    check_groups();
  }
}

void control::drain() {
  if (!alive()) return;
  life_now_->head->on_drain({static_cast<std::uint8_t>(actors::ending::stop)});
  carry_out();
}

weights_version control::version() const {
  return life_now_->memory->version();
}

const storage::ledger& control::ledger() const {
  return life_now_->memory->rows();
}

}  // namespace quern::sim
