// Generators, learner and hosts of the simulation, and what the oracle checks at them.
#include "tools/sim/models.hpp"

#include <algorithm>

#include <fmt/core.h>

namespace quern::sim {

using base::operator""_ms;

namespace {

std::uint64_t mix(const base::hash128& content, std::uint64_t salt) {
  return base::random_stream(content.high ^ salt, "content", {content.low}).next_u64();
}

}  // namespace

// ---- oracle ----

weights_ptr weights::initial() {
  auto w = std::make_shared<weights>();
  w->hash = base::xxh128(std::string_view("initial weights"));
  return w;
}

weights_ptr weights::after(weights_ptr from, const base::hash128& content,
                           std::vector<sample_id> step) {
  auto w = std::make_shared<weights>();
  w->version = from->version + 1;
  w->hash = base::hasher().add(from->hash.high).add(content.high).add(content.low).digest();
  w->before = std::move(from);
  w->step = std::move(step);
  return w;
}

const weights* weights::at(weights_version v) const {
  const weights* w = this;
  while (w != nullptr && w->version > v)
    w = w->before.get();
  return w != nullptr && w->version == v ? w : nullptr;
}

// ---- generator ----

void generator_model::die_now() {
  die();
  ++incarnation_;
  epoch_ = -1;
  current_ = announced_ = nullptr;
  queue_.clear();
  now_.reset();
}

void generator_model::install(epoch_id epoch, const weights_ptr& fresh) {
  if (!alive_ || epoch < epoch_) return;
  if (!truth_.offered.contains({epoch, fresh->hash}))
    truth_.violated(
        fmt::format("a generator is told of version {}, which the learner of epoch {} "
                    "does not offer",
                    fresh->version, epoch));
  if (epoch > epoch_) {
    epoch_ = epoch;
    current_ = announced_ = nullptr;
    queue_.clear();
    now_.reset();
    ++life_;
  }
  const auto newest = announced_ ? announced_ : current_;
  if (!newest || fresh->version > newest->version) announced_ = fresh;
  if (!now_) swap_in();
  if (current_) on_installed(incarnation_, epoch_, current_->hash);
}

void generator_model::swap_in() {
  if (!announced_) return;
  current_ = std::exchange(announced_, nullptr);
  on_installed(incarnation_, epoch_, current_->hash);
}

void generator_model::ask(const generation_request& request) {
  if (!alive_ || request.epoch != epoch_ || !current_) return;
  const auto same = [&](const generation_request& r) { return r.sample == request.sample; };
  if ((now_ && same(*now_)) || std::any_of(queue_.begin(), queue_.end(), same)) return;
  queue_.push_back(request);
  if (!now_) next_sample();
}

void generator_model::next_sample() {
  now_.reset();
  if (!plan_.deterministic) swap_in();
  if (queue_.empty()) return;
  now_ = queue_.front();
  queue_.pop_front();
  making_ = {now_->sample, 0, {}};
  later(events_.between_ms(3, 15), [this] { next_tokens(); });
}

void generator_model::next_tokens() {
  if (!plan_.deterministic) swap_in();
  const auto newest = announced_ ? announced_ : current_;
  const auto* by = plan_.deterministic ? newest->at(now_->version) : current_.get();
  if (by == nullptr) {  // it has not got these weights yet: asked again later
    next_sample();
    return;
  }
  if (making_.segments.empty() || making_.segments.back().version != by->version) {
    making_.segments.push_back({making_.tokens, by->version, by->hash});
  }
  // Lengths vary by sample, so that some are stragglers.
  const auto stretches =
      1 +
      static_cast<std::int64_t>(mix({0, static_cast<std::uint64_t>(now_->sample)}, plan_.seed) % 4);
  making_.tokens += 10;
  if (making_.tokens < 10 * stretches) {
    later(events_.between_ms(3, 25), [this] { next_tokens(); });
    return;
  }
  base::hasher content;
  content.add(static_cast<std::uint64_t>(making_.sample));
  for (const auto& s : making_.segments) {
    content.add(static_cast<std::uint64_t>(s.first_token)).add(s.weights.high).add(s.weights.low);
  }
  const auto hash = content.digest();
  truth_.made[hash] = making_;
  on_sample({epoch_, making_.sample, making_.tokens, making_.segments, hash});
  next_sample();
}

// ---- learner ----

/// Of a batch's gradient: a function of its tokens, so that a batch that comes again is as it was.
static bool finite(const base::hash128& content) {
  return mix(content, 3) % 10 != 0;
}

void learner_model::start(epoch_id epoch, weights_ptr from) {
  alive_ = true;
  busy_ = false;
  epoch_ = epoch;
  current_ = std::move(from);
  copies_ = actors::copy_book(current_->version);
  truth_.offered.emplace(epoch_, current_->hash);
}

bool learner_model::offers_newest() const {
  return truth_.offered.contains({epoch_, current_->hash});
}

/// Into one of two copies, unless links still send both. Whether generators can have it.
bool learner_model::publish() {
  if (!copies_.begin()) return false;
  copies_.written(current_->version);
  truth_.offered.emplace(epoch_, current_->hash);
  for (int link = 0; link < plan_.generators; ++link)
    later(events_.between_ms(1, 20), [this] { read_copy(); });
  return true;
}

/// A link sends the newest copy; one whose generator is slow or stopped takes long.
void learner_model::read_copy() {
  const auto copy = copies_.take();
  const bool slow = events_.random().chance(plan_.slow_links);
  later(slow ? events_.between_ms(50, 400) : events_.between_ms(1, 10),
        [this, copy] { copies_.give_back(copy); });
}

void learner_model::offer(epoch_id epoch) {
  if (!alive_ || epoch != epoch_ || busy_) return;
  if (offers_newest() || publish()) on_offered(epoch_, current_);
}

void learner_model::check(const step_request& request) {
  std::set<sample_id> seen;
  for (const auto* w = current_.get(); w != nullptr; w = w->before.get()) {
    seen.insert(w->step.begin(), w->step.end());
  }
  for (const auto& group : request.groups) {
    if (group.size() < 2) truth_.violated("a group trains with a single member");
    for (const auto& member : group) {
      if (!seen.insert(member.sample).second) {
        truth_.violated(fmt::format("sample {} is trained twice", member.sample));
      }
      const auto found = truth_.made.find(member.tokens);
      if (found == truth_.made.end() || found->second.sample != member.sample) {
        truth_.violated(
            fmt::format("sample {} is trained with tokens it never had", member.sample));
        continue;
      }
      for (const auto& s : found->second.segments) {
        const auto* origin = current_->at(s.version);
        if (origin == nullptr || origin->hash != s.weights) {
          truth_.violated(
              fmt::format("sample {} was made by weights of another lineage (version {})",
                          member.sample, s.version));
        }
      }
      const auto& segments = found->second.segments;
      for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto end =
            i + 1 < segments.size() ? segments[i + 1].first_token : found->second.tokens;
        const auto age = current_->version - segments[i].version;
        if (end <= member.masked) continue;
        if (age < 0 || age > plan_.staleness.max_age) {
          truth_.violated(fmt::format("a token of sample {} is trained at age {}, the bound is {}",
                                      member.sample, age, plan_.staleness.max_age));
        }
        truth_.oldest_age = std::max(truth_.oldest_age, age);
      }
      truth_.masked += member.masked;
    }
  }
}

void learner_model::train(const step_request& request) {
  if (!alive_ || request.epoch != epoch_ || busy_) return;
  if (request.from == current_->version - 1) {  // a repetition: the answer was lost
    on_step(request, current_, false, offers_newest());
    return;
  }
  if (request.from != current_->version) return;
  busy_ = true;
  later(events_.between_ms(8, 30), [this, request] {
    busy_ = false;
    check(request);
    base::hasher content;
    std::vector<sample_id> step;
    for (const auto& group : request.groups) {
      for (const auto& member : group) {
        step.push_back(member.sample);
        content.add(member.tokens.high).add(member.tokens.low);
      }
    }
    // Deterministic mode would make the step without its groups, and the ledger takes no such step.
    if (!plan_.deterministic && !finite(content.digest())) {
      ++truth_.left_out;
      on_step(request, current_, true, false);
      return;
    }
    current_ = weights::after(current_, content.digest(), std::move(step));
    truth_.all_weights[current_->hash] = current_;
    const bool offered = publish();
    truth_.not_offered += offered ? 0 : 1;
    on_step(request, current_, false, offered);
  });
}

void learner_model::save(epoch_id epoch) {
  if (!alive_ || epoch != epoch_) return;
  const auto saved = truth_.checkpoints.find(current_->version);
  if (saved != truth_.checkpoints.end() && saved->second == current_) {
    on_saved(epoch_, current_->version, current_->hash);
    return;
  }
  later(events_.between_ms(5, 20), [this, now = current_] {
    truth_.checkpoints[now->version] = now;
    on_saved(epoch_, now->version, now->hash);
  });
}

// ---- host ----

env::verdict_kind true_verdict(const base::hash128& content) {
  const auto lot = mix(content, 1) % 100;
  if (lot < 60) return env::verdict_kind::ok;
  if (lot < 80) return env::verdict_kind::wrong_value;
  return env::verdict_kind::compile_error;
}

void host_model::start() {
  alive_ = true;
  frozen_until_ = 0;
  inbox_.clear();
  env::host_profile profile;
  profile.build = "simulation";
  profile.lanes = {"cpp"};
  profile.devices = {{0, "cpp-sim", plan_.slots}};
  profile.retry_ns = 150_ms;
  session_.emplace(profile, events_.random().next_u64());
  jobs_session_ = 0;
  beat();
}

void host_model::beat() {
  if (!frozen()) carry_out(session_->on_time(events_.now()));
  const auto wake = std::max(session_->next_wakeup() - events_.now(), 5_ms);
  later(wake, [this] { beat(); });
}

void host_model::receive(const env::message& what) {
  if (!alive_) return;
  if (frozen()) {
    inbox_.push_back(what);
    return;
  }
  const auto before = session_->held();
  const auto* job = std::get_if<env::job_message>(&what);
  auto actions = session_->on_message(what, events_.now());
  if (job != nullptr && session_->held() > before &&
      static_cast<std::int64_t>(session_->held()) > plan_.slots) {
    truth_.violated(fmt::format("host {} holds {} jobs, it has asked for {} at once", number_,
                                session_->held(), plan_.slots));
  }
  carry_out(std::move(actions));
}

void host_model::carry_out(env::host_actions actions) {
  for (auto& frame : actions.send)
    on_frame(frame);
  for (const auto& job : actions.start)
    work(job);
  // Cancelled work goes on to its end; the session knows that its result is of no use.
}

void host_model::work(const env::host_job& job) {
  auto& random = events_.random();
  auto content = base::parse_hash(job.job.source);
  auto kind = content ? true_verdict(*content) : env::verdict_kind::infra_error;
  bool fails = false;
  if (plan_.faults && !plan_.deterministic) {
    const bool cursed = content && mix(*content, 2) % 25 == 0;  // never measured well
    const double lot = random.uniform();
    if (cursed || lot < 0.06) {
      kind = env::verdict_kind::noisy;
    } else if (lot < 0.09) {
      kind = env::verdict_kind::unconfirmed;
    } else if (lot < 0.10) {
      kind = env::verdict_kind::invalid_reference;
    } else if (lot < 0.13) {
      fails = true;
    }
  }
  // Some evaluations take longer than their lease.
  auto duration = events_.between_ms(10, 60);
  if (plan_.faults && random.chance(0.04)) duration = events_.between_ms(200, 900);
  if (events_.now() < truth_.sick_until_ns) {
    fails = true;
    duration = 2_ms;
  }
  later(duration, [this, lease = job.job.lease, source = job.job.source, kind, fails] {
    const auto text = fails ? std::string("the device is unhealthy")
                            : fmt::format("{} {}", static_cast<int>(kind), source);
    if (frozen()) {
      later(frozen_until_ - events_.now() + 1_ms, [this, lease, text, fails] {
        carry_out(session_->finished(lease, {fails, text}, events_.now()));
      });
      return;
    }
    carry_out(session_->finished(lease, {fails, text}, events_.now()));
  });
}

void host_model::freeze(nanoseconds_t duration) {
  if (!alive_) return;
  frozen_until_ = events_.now() + duration;
  later(duration, [this] {
    for (const auto& what : std::exchange(inbox_, {}))
      receive(what);
  });
}

}  // namespace quern::sim
