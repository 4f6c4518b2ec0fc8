// One schedule: who is there, who dies when, and what has to hold.
#include "tools/sim/world.hpp"

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/core.h>

#include "actors/decide/restart_policy.hpp"
#include "base/log.hpp"
#include "tools/sim/control.hpp"

namespace quern::sim {

using base::operator""_ms;

namespace {

constexpr nanoseconds_t tick_ns = 100'000'000;
constexpr nanoseconds_t fault_phase_ns = 1'600'000'000;
constexpr nanoseconds_t patience_ns = 120'000'000'000;  // simulated, to settle without faults

/// Starts in so short a time are a storm, whatever the reason.
constexpr nanoseconds_t storm_ns = 100'000'000;
constexpr std::size_t storm_starts = 4;
constexpr actors::restart_limits restarts{12, 1'000'000'000, 20'000'000, 300'000'000};

class world {
 public:
  explicit world(const scenario& plan) : plan_(plan), events_(plan.seed), restarts_(restarts) {}

  outcome run();

 private:
  void build();
  void build_generator(int g);
  void build_learner();
  void build_hosts();
  control::wires wires();
  void plan_deaths();
  void plan_host_deaths();
  void tick();
  void restart_control();
  void kill_control();
  void start_host(int h) { hosts_[static_cast<std::size_t>(h)]->start(); }

  // ---- what a supervisor does: starts processes, by the production policy ----
  void start_worker(worker_place place);
  void stop_worker(worker_place place, bool tell_control);
  [[nodiscard]] std::int64_t life_of(int generator) const;
  /// `what` happens at control, after what the process has sent before.
  template <class Call>
  void to_control(int generator, bool may_double, Call what);
  /// `what` happens at the process, if it is still the one that was meant.
  template <class Call>
  void to_worker(worker_place to, Call what);

  bool settle(const std::function<bool()>& done, const char* problem);
  [[nodiscard]] bool holds() const { return truth_.violation.empty(); }
  outcome result();

  const scenario plan_;
  event_queue events_;
  oracle truth_;
  actors::restart_policy restarts_;
  std::map<int, std::vector<nanoseconds_t>> starts_;  ///< by role
  int doomed_ = -2;                                   ///< role that dies at once; -2: none
  nanoseconds_t doomed_until_ = 0;
  std::unique_ptr<control> control_;
  std::vector<std::unique_ptr<generator_model>> generators_;
  std::unique_ptr<learner_model> learner_;
  std::vector<std::unique_ptr<host_model>> hosts_;
};

std::int64_t world::life_of(int generator) const {
  return generator < 0 ? learner_->life()
                       : generators_[static_cast<std::size_t>(generator)]->life();
}

template <class Call>
void world::to_control(int generator, bool may_double, Call what) {
  const worker_place from{generator, life_of(generator)};
  events_.send_in_order(fmt::format("worker{} up", generator), may_double,
                        [this, from, what = std::move(what)] { what(*control_, from); });
}

template <class Call>
void world::to_worker(worker_place to, Call what) {
  events_.send_in_order(fmt::format("worker{} down", to.generator), false,
                        [this, to, what = std::move(what)] {
                          if (life_of(to.generator) == to.life) what();
                        });
}

void world::start_worker(worker_place place) {
  if (life_of(place.generator) != place.life || !control_->alive()) return;
  auto& starts = starts_[place.generator];
  std::erase_if(starts, [&](nanoseconds_t at) { return events_.now() - at > storm_ns; });
  starts.push_back(events_.now());
  if (starts.size() >= storm_starts)
    truth_.violated(fmt::format("a restart storm: {} is started {} times within 100 ms",
                                place.generator < 0 ? "the learner" : "a generator",
                                starts.size()));
  if (place.generator < 0)
    learner_->start();
  else
    generators_[static_cast<std::size_t>(place.generator)]->start();
  if (doomed_ == place.generator && events_.now() < doomed_until_)
    events_.in(1_ms, [this, place] {
      if (life_of(place.generator) == place.life) stop_worker(place, true);
    });
}

void world::stop_worker(worker_place place, bool tell_control) {
  const bool learner = place.generator < 0;
  if (tell_control)
    to_control(place.generator, false,
               [](control& head, worker_place from) { head.on_down(from); });
  if (learner)
    learner_->stop();
  else
    generators_[static_cast<std::size_t>(place.generator)]->stop();
  if (!tell_control) return;
  const auto again = restarts_.died(fmt::format("worker{}", place.generator), events_.now());
  if (!again.restart)
    return truth_.violated(fmt::format("{} died {} times and is not started again",
                                       learner ? "the learner" : "a generator", again.deaths));
  events_.in(again.delay_ns,
             [this, next = worker_place{place.generator, life_of(place.generator)}] {
               start_worker(next);
             });
}

void world::build_generator(int g) {
  auto made = std::make_unique<generator_model>(events_, truth_, plan_);
  made->on_hello = [this, g] {
    to_control(g, false, [](control& head, worker_place from) { head.on_hello(from); });
  };
  made->on_sample = [this, g](const actors::generated_sample& sample) {
    to_control(g, true,
               [sample](control& head, worker_place from) { head.on_sample(from, sample); });
  };
  // The older of two versions must not come last: CAF doubles nothing.
  made->on_installed = [this, g](const actors::weights_installed& now) {
    to_control(g, false, [now](control& head, worker_place from) { head.on_installed(from, now); });
  };
  made->on_credit = [this, g](const actors::generation_credit& credit) {
    to_control(g, true,
               [credit](control& head, worker_place from) { head.on_credit(from, credit); });
  };
  generators_.push_back(std::move(made));
}

void world::build_learner() {
  learner_ = std::make_unique<learner_model>(events_, truth_, plan_);
  learner_->on_hello = [this] {
    to_control(-1, false, [](control& head, worker_place from) { head.on_hello(from); });
  };
  learner_->on_ready = [this](const actors::learner_ready& ready) {
    to_control(-1, false,
               [ready](control& head, worker_place from) { head.on_ready(from, ready); });
  };
  learner_->on_step = [this](const actors::step_done& step) {
    to_control(-1, true, [step](control& head, worker_place from) { head.on_step(from, step); });
  };
  learner_->on_offered = [this](const actors::weights_ready& offered) {
    to_control(-1, true,
               [offered](control& head, worker_place from) { head.on_offered(from, offered); });
  };
  learner_->on_saved = [this](const actors::checkpoint_saved& saved) {
    to_control(-1, true, [saved](control& head, worker_place from) { head.on_saved(from, saved); });
  };
}

void world::build_hosts() {
  for (int h = 0; h < plan_.hosts; ++h) {
    auto made = std::make_unique<host_model>(events_, truth_, plan_, h);
    made->on_frame = [this, h](const env::message& what) {
      events_.send(fmt::format("host{} up", h), [this, h, what] { control_->on_host(h, what); });
    };
    hosts_.push_back(std::move(made));
  }
}

control::wires world::wires() {
  const auto generator = [this](worker_place to) {
    return generators_[static_cast<std::size_t>(to.generator)].get();
  };
  control::wires out;
  out.welcome = [this, generator](worker_place to, const actors::welcome& answer) {
    to_worker(to, [this, generator, to, answer] {
      if (to.generator < 0)
        learner_->welcomed(answer);
      else
        generator(to)->welcomed(answer);
    });
  };
  out.generate = [this, generator](worker_place to, const generation_request& request) {
    to_worker(to, [generator, to, request] { generator(to)->ask(request); });
  };
  out.install = [this, generator](worker_place to, const actors::weights_ready& fresh) {
    to_worker(to, [generator, to, fresh] { generator(to)->install(fresh); });
  };
  out.train = [this](worker_place to, const actors::train_batch& batch) {
    to_worker(to, [this, batch] { learner_->train(batch); });
  };
  out.save = [this](worker_place to, const actors::save_checkpoint& order) {
    to_worker(to, [this, order] { learner_->save(order); });
  };
  out.offer = [this](worker_place to, const actors::offer_weights& order) {
    to_worker(to, [this, order] { learner_->offer(order); });
  };
  out.end = [this](worker_place to) { to_worker(to, [this, to] { stop_worker(to, true); }); };
  out.to_host = [this](int h, const env::message& what) {
    events_.send(fmt::format("host{} down", h),
                 [this, h, what] { hosts_[static_cast<std::size_t>(h)]->receive(what); });
  };
  return out;
}

void world::build() {
  const auto first = weights::initial();
  truth_.all_weights[first->hash] = first;
  const auto limits = scheduler_limits(plan_).leases.retries;
  truth_.most_attempts =
      limits.noisy + limits.infra_error + limits.invalid_reference + limits.unconfirmed + 1;
  for (int g = 0; g < plan_.generators; ++g)
    build_generator(g);
  build_learner();
  build_hosts();
  control_ = std::make_unique<control>(events_, truth_, plan_, wires());
}

void world::restart_control() {
  for (int h = 0; h < plan_.hosts; ++h) {
    if (!hosts_[static_cast<std::size_t>(h)]->alive()) start_host(h);
  }
  restarts_ = actors::restart_policy(restarts);
  starts_.clear();
  control_->boot();
  if (!control_->alive()) return;
  for (int g = -1; g < plan_.generators; ++g)
    start_worker({g, life_of(g)});
}

void world::kill_control() {
  if (!control_->alive()) return;
  ++events_.counts.control_deaths;
  control_->die();
  for (int g = -1; g < plan_.generators; ++g)
    stop_worker({g, life_of(g)}, false);
  // Hosts on other machines live on and meet the next control with frames of the old one.
  for (auto& host : hosts_) {
    if (events_.random().chance(0.5)) host->die();
  }
  events_.in(events_.between_ms(20, 200), [this] { restart_control(); });
}

void world::plan_deaths() {
  const auto some_time = [&] { return events_.between_ms(50, fault_phase_ns / 1'000'000); };
  const auto any_generator = [this] {
    return static_cast<int>(events_.random().below(static_cast<std::uint64_t>(plan_.generators)));
  };
  for (int n = 0; n < plan_.control_deaths; ++n)
    events_.at(some_time(), [this] { kill_control(); });
  for (int n = 0; n < plan_.generator_deaths; ++n) {
    events_.at(some_time(), [this, any_generator] {
      const int g = any_generator();
      if (!generators_[static_cast<std::size_t>(g)]->alive() || !control_->alive()) return;
      ++events_.counts.generator_deaths;
      stop_worker({g, life_of(g)}, true);
    });
  }
  for (int n = 0; n < plan_.learner_deaths; ++n) {
    events_.at(some_time(), [this] {
      if (!learner_->alive() || !control_->alive()) return;
      ++events_.counts.learner_deaths;
      stop_worker({-1, life_of(-1)}, true);
    });
  }
  for (int n = 0; n < plan_.learner_hangs; ++n) {
    events_.at(some_time(), [this] {
      if (!learner_->alive()) return;
      ++events_.counts.learner_hangs;
      learner_->hang();
    });
  }
  for (int n = 0; n < plan_.doomed_starts; ++n) {
    events_.at(some_time(), [this, any_generator] {
      ++events_.counts.doomed_starts;
      doomed_ = events_.random().chance(0.5) ? -1 : any_generator();
      doomed_until_ = events_.now() + events_.between_ms(100, 250);
      const auto alive =
          doomed_ < 0 ? learner_->alive() : generators_[static_cast<std::size_t>(doomed_)]->alive();
      if (alive && control_->alive()) stop_worker({doomed_, life_of(doomed_)}, true);
    });
  }
  plan_host_deaths();
}

void world::plan_host_deaths() {
  const auto some_time = [&] { return events_.between_ms(50, fault_phase_ns / 1'000'000); };
  const auto any_host = [this]() -> host_model& {
    return *hosts_[events_.random().below(static_cast<std::uint64_t>(plan_.hosts))];
  };
  for (int n = 0; n < plan_.host_deaths; ++n) {
    events_.at(some_time(), [this, any_host] {
      auto& victim = any_host();
      if (!victim.alive()) return;
      ++events_.counts.host_deaths;
      victim.die();
      events_.in(events_.between_ms(20, 800), [&victim] {
        if (!victim.alive()) victim.start();
      });
    });
  }
  for (int n = 0; n < plan_.sick_spells; ++n) {
    events_.at(some_time(), [this] {
      ++events_.counts.sick_spells;
      truth_.sick_until_ns = events_.now() + events_.between_ms(300, 1200);
    });
  }
  for (int n = 0; n < plan_.broken_hosts; ++n) {
    events_.at(some_time(), [this, any_host] {
      ++events_.counts.broken_hosts;
      any_host().break_until(events_.now() + events_.between_ms(300, 1000));
    });
  }
  for (int n = 0; n < plan_.host_freezes; ++n) {
    events_.at(some_time(), [this, any_host] {
      ++events_.counts.host_freezes;
      any_host().freeze(events_.between_ms(100, 1200));
    });
  }
}

void world::tick() {
  control_->tick();
  events_.in(tick_ns, [this] { tick(); });
}

bool world::settle(const std::function<bool()>& done, const char* problem) {
  const auto give_up = events_.now() + patience_ns;
  while (holds() && !done()) {
    if (!events_.step() || events_.now() > give_up)
      truth_.violated(fmt::format("{}: {}", problem, control_->standing()));
  }
  return holds();
}

outcome world::run() {
  build();
  if (plan_.faults) {
    events_.rates = plan_.rates;
    plan_deaths();
  }
  for (int h = 0; h < plan_.hosts; ++h)
    start_host(h);
  restart_control();
  tick();
  while (holds() && (events_.now() < fault_phase_ns || events_.delivered < plan_.least_events)) {
    if (!events_.step()) break;
  }
  // The faults are over: the run has to go on, and whatever is under way then comes to an end.
  events_.rates = {};
  std::optional<weights_version> reached;
  settle(
      [&] {
        if (!control_->alive()) return false;
        if (!reached) reached = control_->version();
        if (control_->version() < *reached) reached = control_->version();  // a learner was lost
        return control_->version() >= *reached + 2;
      },
      "no step is made any more");
  if (holds()) control_->drain();
  settle([&] { return control_->drained(); }, "the run does not come to rest");
  if (holds()) control_->check_end(learner_->holds());
  return result();
}

outcome world::result() {
  outcome result;
  result.violation = truth_.violation;
  result.events = events_.delivered;
  result.faults = events_.counts;
  result.oldest_age = truth_.oldest_age;
  result.masked_tokens = truth_.masked;
  result.left_out = truth_.left_out;
  result.not_offered = truth_.not_offered;
  if (!holds()) return result;
  const auto counts = control_->ledger().counts();
  const auto position = control_->ledger().position();
  if (counts && position) {
    result.issued = counts->issued_ever;
    result.trained = counts->of(storage::sample_state::trained);
    result.dropped = counts->of(storage::sample_state::dropped);
    result.steps = control_->version();
    result.incarnations = position->incarnation;
    if (const auto reasons = control_->ledger().drop_reasons())
      if (const auto lost = reasons->find(std::string(actors::drop_reason::group_mostly_lost));
          lost != reasons->end())
        result.mostly_lost = lost->second;
  }
  for (const auto* w = learner_->holds().get(); w != nullptr; w = w->before.get()) {
    result.chain = to_hex(w->hash) + " " + result.chain;
  }
  result.weights = to_hex(learner_->holds()->hash);
  return result;
}

}  // namespace

scenario scenario::drawn(std::uint64_t seed) {
  base::random_stream random(seed, "scenario");
  scenario plan;
  plan.seed = seed;
  plan.deterministic = random.chance(0.2);
  plan.staleness.max_age = random.between(0, 3);
  plan.staleness.groups_per_step = random.between(1, 3);
  plan.staleness.policy = static_cast<actors::staleness_policy>(random.below(3));
  if (plan.deterministic) plan.staleness.policy = actors::staleness_policy::drop;
  plan.group_size = static_cast<int>(random.between(2, 4));
  plan.generators = static_cast<int>(random.between(1, 2));
  plan.hosts = static_cast<int>(random.between(1, 3));
  plan.slots = static_cast<int>(random.between(1, 2));
  plan.checkpoint_every = static_cast<int>(random.between(1, 4));
  if (random.chance(0.5)) plan.rates.lost = 0.02;
  if (random.chance(0.5)) plan.rates.doubled = 0.03;
  if (random.chance(0.5)) plan.rates.late = 0.02;
  const auto deaths = [&](int most) {
    return random.chance(0.5) ? static_cast<int>(random.between(1, most)) : 0;
  };
  plan.control_deaths = deaths(2);
  plan.generator_deaths = deaths(3);
  plan.learner_deaths = deaths(2);
  plan.host_deaths = deaths(4);
  plan.host_freezes = deaths(2);
  // Groups that can lose more than half of their members and have two left.
  if (!plan.deterministic && random.chance(0.3)) {
    plan.sick_spells = 1;
    plan.group_size = static_cast<int>(random.between(5, 6));
  }
  if (random.chance(0.5)) plan.slow_links = 0.5;
  plan.exemplars = random.chance(0.3);
  plan.learner_hangs = random.chance(0.2) ? 1 : 0;
  plan.doomed_starts = random.chance(0.3) ? 1 : 0;
  // Where it is alone, nothing can be judged: that is a sick spell.
  if (!plan.deterministic && plan.hosts > 1) plan.broken_hosts = random.chance(0.5) ? 1 : 0;
  return plan;
}

outcome simulate(const scenario& what) {
  // What goes wrong here is meant to: not even errors are written.
  base::set_log_level(static_cast<base::log_level>(static_cast<int>(base::log_level::error) + 1));
  try {
    return world(what).run();
  } catch (const std::exception& thrown) {
    // The actor would end the run with it.
    outcome failed;
    failed.violation = std::string("control throws: ") + thrown.what();
    return failed;
  }
}

}  // namespace quern::sim
