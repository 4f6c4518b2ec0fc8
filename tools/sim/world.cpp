// One schedule: who is there, who dies when, and what has to hold.
#include "tools/sim/world.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/core.h>

#include "tools/sim/control.hpp"

namespace quern::sim {

using base::operator""_ms;

namespace {

constexpr nanoseconds_t tick_ns = 100'000'000;
constexpr nanoseconds_t fault_phase_ns = 1'600'000'000;
constexpr nanoseconds_t patience_ns = 120'000'000'000;  // simulated, to settle without faults

class world {
 public:
  explicit world(const scenario& plan) : plan_(plan), events_(plan.seed) {}

  outcome run();

 private:
  void build();
  void plan_deaths();
  void tick();
  void restart_control();
  void kill_control();
  void start_host(int h) { hosts_[static_cast<std::size_t>(h)]->start(); }

  const scenario plan_;
  event_queue events_;
  oracle truth_;
  std::unique_ptr<storage::database> db_;
  std::unique_ptr<control> control_;
  std::vector<std::unique_ptr<generator_model>> generators_;
  std::unique_ptr<learner_model> learner_;
  std::vector<std::unique_ptr<host_model>> hosts_;
};

void world::build() {
  auto opened = storage::database::in_memory(&events_.clock(), 1'000'000);
  if (!opened) return truth_.violated(opened.error().message);
  db_ = std::move(*opened);
  const auto first = weights::initial();
  truth_.all_weights[first->hash] = first;
  truth_.checkpoints[0] = first;

  for (int g = 0; g < plan_.generators; ++g) {
    auto made = std::make_unique<generator_model>(events_, truth_, plan_);
    const auto link = fmt::format("generator{} up", g);
    made->on_sample = [this, g, link](const generated_sample& sample) {
      events_.send(link, [this, g, sample] { control_->on_sample(g, sample); });
    };
    made->on_installed = [this, g, link](std::int64_t incarnation, epoch_id epoch,
                                         base::hash128 hash) {
      events_.send(link, [this, g, incarnation, epoch, hash] {
        control_->on_installed(g, incarnation, epoch, hash);
      });
    };
    made->start();
    generators_.push_back(std::move(made));
  }
  learner_ = std::make_unique<learner_model>(events_, truth_, plan_);
  learner_->on_step = [this](const step_request& of, const weights_ptr& made, bool left_out,
                             bool offered) {
    events_.send("learner up", [this, of, made, left_out, offered] {
      control_->on_step(of, made, left_out, offered);
    });
  };
  learner_->on_offered = [this](epoch_id epoch, const weights_ptr& made) {
    events_.send("learner up", [this, epoch, made] { control_->on_offered(epoch, made); });
  };
  learner_->on_saved = [this](epoch_id epoch, weights_version version, base::hash128 hash) {
    events_.send("learner up",
                 [this, epoch, version, hash] { control_->on_saved(epoch, version, hash); });
  };
  for (int h = 0; h < plan_.hosts; ++h) {
    auto made = std::make_unique<host_model>(events_, truth_, plan_, h);
    made->on_frame = [this, h](const env::message& what) {
      events_.send(fmt::format("host{} up", h), [this, h, what] { control_->on_host(h, what); });
    };
    hosts_.push_back(std::move(made));
  }
  control::wires out;
  out.generate = [this](int g, const generation_request& request) {
    events_.send(fmt::format("generator{} down", g),
                 [this, g, request] { generators_[static_cast<std::size_t>(g)]->ask(request); });
  };
  out.install = [this](int g, epoch_id epoch, const weights_ptr& fresh) {
    events_.send(fmt::format("generator{} down", g), [this, g, epoch, fresh] {
      generators_[static_cast<std::size_t>(g)]->install(epoch, fresh);
    });
  };
  out.train = [this](const step_request& request) {
    events_.send("learner down", [this, request] { learner_->train(request); });
  };
  out.offer = [this](epoch_id epoch) {
    events_.send("learner down", [this, epoch] { learner_->offer(epoch); });
  };
  out.save = [this](epoch_id epoch) {
    events_.send("learner down", [this, epoch] { learner_->save(epoch); });
  };
  out.to_host = [this](int h, const env::message& what) {
    events_.send(fmt::format("host{} down", h),
                 [this, h, what] { hosts_[static_cast<std::size_t>(h)]->receive(what); });
  };
  // A process is started with its epoch and checkpoint on its command line: that cannot get lost.
  out.start_learner = [this](epoch_id epoch, const weights_ptr& from) {
    learner_->die();
    learner_->start(epoch, from);
  };
  control_ = std::make_unique<control>(events_, truth_, plan_, *db_, std::move(out));
}

void world::restart_control() {
  for (auto& generator : generators_)
    generator->start();
  for (int h = 0; h < plan_.hosts; ++h) {
    if (!hosts_[static_cast<std::size_t>(h)]->alive()) start_host(h);
  }
  control_->boot();
}

void world::kill_control() {
  if (!control_->alive()) return;
  ++events_.counts.control_deaths;
  control_->die();
  learner_->die();
  for (auto& generator : generators_)
    generator->die_now();
  // Hosts on other machines live on and meet the next control with frames of the old one.
  for (auto& host : hosts_) {
    if (events_.random().chance(0.5)) host->die();
  }
  events_.in(events_.between_ms(20, 200), [this] { restart_control(); });
}

void world::plan_deaths() {
  const auto some_time = [&] { return events_.between_ms(50, fault_phase_ns / 1'000'000); };
  for (int n = 0; n < plan_.control_deaths; ++n)
    events_.at(some_time(), [this] { kill_control(); });
  for (int n = 0; n < plan_.generator_deaths; ++n) {
    events_.at(some_time(), [this] {
      const auto g =
          static_cast<int>(events_.random().below(static_cast<std::uint64_t>(plan_.generators)));
      auto& victim = *generators_[static_cast<std::size_t>(g)];
      if (!victim.alive() || !control_->alive()) return;
      ++events_.counts.generator_deaths;
      victim.die_now();
      events_.in(events_.between_ms(1, 10),
                 [this, g, next = victim.incarnation()] { control_->generator_died(g, next); });
      events_.in(events_.between_ms(20, 150), [&victim] { victim.start(); });
    });
  }
  for (int n = 0; n < plan_.learner_deaths; ++n) {
    events_.at(some_time(), [this] {
      if (!learner_->alive() || !control_->alive()) return;
      ++events_.counts.learner_deaths;
      learner_->die();
      events_.in(events_.between_ms(1, 60), [this] {
        if (!learner_->alive()) control_->learner_died();
      });
    });
  }
  for (int n = 0; n < plan_.host_deaths; ++n) {
    events_.at(some_time(), [this] {
      const auto h =
          static_cast<int>(events_.random().below(static_cast<std::uint64_t>(plan_.hosts)));
      auto& victim = *hosts_[static_cast<std::size_t>(h)];
      if (!victim.alive()) return;
      ++events_.counts.host_deaths;
      victim.die();
      events_.in(events_.between_ms(20, 800), [this, h, &victim] {
        if (!victim.alive()) start_host(h);
      });
    });
  }
  for (int n = 0; n < plan_.sick_spells; ++n) {
    events_.at(some_time(), [this] {
      ++events_.counts.sick_spells;
      truth_.sick_until_ns = events_.now() + events_.between_ms(300, 1200);
    });
  }
  for (int n = 0; n < plan_.host_freezes; ++n) {
    events_.at(some_time(), [this] {
      const auto h = events_.random().below(static_cast<std::uint64_t>(plan_.hosts));
      ++events_.counts.host_freezes;
      hosts_[h]->freeze(events_.between_ms(100, 1200));
    });
  }
}

void world::tick() {
  control_->tick();
  events_.in(tick_ns, [this] { tick(); });
}

outcome world::run() {
  build();
  if (truth_.violation.empty()) {
    if (plan_.faults) {
      events_.rates = plan_.rates;
      plan_deaths();
    }
    for (int h = 0; h < plan_.hosts; ++h)
      start_host(h);
    control_->boot();
    tick();
  }
  const auto holds = [&] { return truth_.violation.empty(); };
  while (holds() && (events_.now() < fault_phase_ns || events_.delivered < plan_.least_events)) {
    if (!events_.step()) break;
  }
  // The faults are over: whatever is under way must now come to an end.
  events_.rates = {};
  const auto give_up = events_.now() + patience_ns;
  bool draining = false;
  while (holds() && !(draining && control_->settled())) {
    if (!draining && control_->alive()) {
      control_->drain();
      draining = true;
    }
    if (!events_.step() || events_.now() > give_up) {
      truth_.violated("the run does not come to rest: " + control_->standing());
    }
  }
  if (holds()) control_->stop();

  outcome result;
  result.violation = truth_.violation;
  result.events = events_.delivered;
  result.faults = events_.counts;
  result.oldest_age = truth_.oldest_age;
  result.masked_tokens = truth_.masked;
  result.left_out = truth_.left_out;
  result.not_offered = truth_.not_offered;
  if (control_ && holds()) {
    const auto counts = control_->ledger().counts();
    const auto position = control_->ledger().position();
    if (counts && position) {
      result.issued = counts->issued_ever;
      result.trained = counts->of(storage::sample_state::trained);
      result.dropped = counts->of(storage::sample_state::dropped);
      result.steps = control_->version();
      result.epochs = position->epoch;
      if (const auto reasons = control_->ledger().drop_reasons())
        if (const auto lost = reasons->find(std::string(actors::drop_reason::group_mostly_lost));
            lost != reasons->end())
          result.mostly_lost = lost->second;
    }
    for (const auto* w = learner_->holds().get(); w != nullptr; w = w->before.get()) {
      result.chain = to_hex(w->hash) + " " + result.chain;
    }
    result.weights = to_hex(learner_->holds()->hash);
  }
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
  return plan;
}

outcome simulate(const scenario& what) {
  return world(what).run();
}

}  // namespace quern::sim
