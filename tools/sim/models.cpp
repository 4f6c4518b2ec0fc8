// Generators, learner and hosts of the simulation, and what the oracle checks at them.
#include "tools/sim/models.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "env/prompt/completion.hpp"
#include "tools/sim/run_files.hpp"

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

/// Tokens of a sample as they cross the wire: a prompt of four, which are the hash of its content.
constexpr std::int64_t prompt_tokens = 4;

static std::string block_of(const base::hash128& content, std::int64_t policy) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(prompt_tokens + policy), 1);
  std::memcpy(tokens.data(), &content.high, sizeof content.high);
  std::memcpy(tokens.data() + 2, &content.low, sizeof content.low);
  return actors::to_block(tokens);
}

static base::hash128 content_of(const std::string& block) {
  base::hash128 content;
  if (block.size() < 16) return content;
  std::memcpy(&content.high, block.data(), sizeof content.high);
  std::memcpy(&content.low, block.data() + 8, sizeof content.low);
  return content;
}

// ---- generator ----

void generator_model::start() {
  alive_ = true;
  on_hello();
}

void generator_model::stop() {
  die();
  incarnation_ = -1;
  granted_ = 0;
  current_ = announced_ = nullptr;
  queue_.clear();
  now_.reset();
}

void generator_model::welcomed(const actors::welcome& from) {
  const auto hash = read_weights(from.checkpoint);
  const auto known = hash ? truth_.all_weights.find(*hash) : truth_.all_weights.end();
  if (known == truth_.all_weights.end() || known->second->version != from.version)
    return truth_.violated(
        fmt::format("a generator is welcomed with version {}, {} has other weights", from.version,
                    from.checkpoint));
  incarnation_ = from.incarnation;
  announced_ = known->second;
  truth_.offered.emplace(incarnation_, announced_->hash);
  later(events_.between_ms(2, 20), [this] {
    swap_in();
    granted_ = 2;
    actors::generation_credit credit;
    credit.granted = granted_;
    on_credit(credit);
  });
}

void generator_model::install(const actors::weights_ready& fresh) {
  if (!alive_ || fresh.incarnation != incarnation_) return;
  if (!truth_.offered.contains({incarnation_, fresh.hash}))
    return truth_.violated(fmt::format(
        "a generator is told of version {}, which the learner of incarnation {} does not "
        "offer",
        fresh.version, incarnation_));
  const auto newest = announced_ ? announced_ : current_;
  if (newest && fresh.version <= newest->version) return;
  announced_ = truth_.all_weights.at(fresh.hash);
  if (!now_ && current_) swap_in();
}

void generator_model::swap_in() {
  if (!announced_) return;
  current_ = std::exchange(announced_, nullptr);
  on_installed({incarnation_, current_->version, current_->hash});
}

void generator_model::ask(const generation_request& request) {
  if (!alive_ || request.group.incarnation != incarnation_) return;
  for (const sample_id sample : request.group.samples)
    queue_.push_back({sample, request.version, sample == request.group.samples.back()});
  if (!now_) next_sample();
}

void generator_model::next_sample() {
  now_.reset();
  if (!plan_.deterministic || queue_.empty()) swap_in();
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
  if (by == nullptr) return later(20_ms, [this] { next_tokens(); });  // still to come
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
  finish_sample();
}

void generator_model::finish_sample() {
  base::hasher content;
  content.add(static_cast<std::uint64_t>(making_.sample));
  for (const auto& s : making_.segments) {
    content.add(static_cast<std::uint64_t>(s.first_token)).add(s.weights.high).add(s.weights.low);
  }
  const auto hash = content.digest();
  truth_.made[hash] = making_;
  actors::generated_sample made;
  made.incarnation = incarnation_;
  made.sample = making_.sample;
  made.tokens = block_of(hash, making_.tokens);
  made.segments = actors::single_turn(prompt_tokens, making_.tokens);
  made.log_probs =
      actors::to_block(std::vector<float>(static_cast<std::size_t>(making_.tokens), -1));
  for (const auto& s : making_.segments)
    made.versions.push_back({s.first_token, s.version, s.weights});
  // A completion that cannot be read is judged by control, without a host.
  made.text = hash.low % 16 == 0
                  ? "no code"
                  : env::render_completion({"a", "b", "int v" + to_hex(hash) + ";\n"}, "cpp");
  on_sample(std::move(made));
  if (now_->last) {
    actors::generation_credit credit;
    credit.granted = ++granted_;
    on_credit(credit);
  }
  next_sample();
}

// ---- learner ----

/// Of a batch's gradient: a function of its tokens, so that a batch that comes again is as it was.
static bool finite(const base::hash128& content) {
  return mix(content, 3) % 10 != 0;
}

void learner_model::start() {
  alive_ = true;
  busy_ = hangs_ = false;
  incarnation_ = -1;
  on_hello();
}

void learner_model::stop() {
  die();
  incarnation_ = -1;
}

void learner_model::welcomed(const actors::welcome& from) {
  const auto hash = read_weights(from.checkpoint);
  const auto known = hash ? truth_.all_weights.find(*hash) : truth_.all_weights.end();
  if (known == truth_.all_weights.end() || known->second->version != from.version)
    return truth_.violated(
        fmt::format("the learner is welcomed with version {}, {} has other "
                    "weights",
                    from.version, from.checkpoint));
  later(events_.between_ms(5, 30), [this, incarnation = from.incarnation, first = known->second] {
    incarnation_ = incarnation;
    current_ = first;
    truth_.steps_made[incarnation_] = std::max(truth_.steps_made[incarnation_], current_->version);
    copies_ = actors::copy_book(current_->version);
    truth_.offered.emplace(incarnation_, current_->hash);
    if (!hangs_) on_ready({incarnation_, current_->version, current_->hash});
  });
}

bool learner_model::offers_newest() const {
  return truth_.offered.contains({incarnation_, current_->hash});
}

actors::weights_ready learner_model::newest() const {
  return {incarnation_, current_->version, current_->hash, "copy"};
}

/// Into one of two copies, unless links still send both. Whether generators can have it.
bool learner_model::publish() {
  if (!copies_.begin()) return false;
  copies_.written(current_->version);
  truth_.offered.emplace(incarnation_, current_->hash);
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

void learner_model::offer(const actors::offer_weights& order) {
  if (!alive_ || order.incarnation != incarnation_) return;
  ++offers_asked_;
  if (busy_) return;
  if (offers_newest() || publish()) on_offered(newest());
}

/// Control has to ask, soon, for weights that their step could not offer, unless another step
/// follows.
void learner_model::watch_for_offer() {
  later(400_ms, [this, asked = offers_asked_, mine = current_] {
    if (truth_.run_over || busy_ || hangs_ || current_ != mine || offers_asked_ > asked ||
        offers_newest())
      return;
    truth_.violated(
        fmt::format("version {} was not offered, and nobody asks for it", mine->version));
  });
}

void learner_model::check_sample(const actors::training_sample& sample) {
  const auto content = content_of(sample.tokens);
  const auto found = truth_.made.find(content);
  if (found == truth_.made.end() || found->second.sample != sample.sample)
    return truth_.violated(
        fmt::format("sample {} is trained with tokens it never had", sample.sample));
  const auto& segments = found->second.segments;
  std::int64_t masked = actors::policy_tokens(sample.segments);
  for (const auto& part : sample.segments)
    if (part.trained) masked -= part.length;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto* origin = current_->at(segments[i].version);
    if (origin == nullptr || origin->hash != segments[i].weights) {
      truth_.violated(fmt::format("sample {} was made by weights of another lineage (version {})",
                                  sample.sample, segments[i].version));
    }
    const auto end = i + 1 < segments.size() ? segments[i + 1].first_token : found->second.tokens;
    const auto age = current_->version - segments[i].version;
    if (end <= masked) continue;
    if (age < 0 || age > plan_.staleness.max_age) {
      truth_.violated(fmt::format("a token of sample {} is trained at age {}, the bound is {}",
                                  sample.sample, age, plan_.staleness.max_age));
    }
    truth_.oldest_age = std::max(truth_.oldest_age, age);
  }
  truth_.masked += masked;
}

void learner_model::check(const actors::train_batch& batch) {
  std::set<sample_id> seen;
  for (const auto* w = current_.get(); w != nullptr; w = w->before.get()) {
    seen.insert(w->step.begin(), w->step.end());
  }
  std::map<actors::group_id, int> members;
  for (const auto& sample : batch.samples) {
    ++members[sample.group];
    if (!seen.insert(sample.sample).second)
      truth_.violated(fmt::format("sample {} is trained twice", sample.sample));
    check_sample(sample);
  }
  for (const auto& [group, count] : members)
    if (count < 2) truth_.violated("a group trains with a single member");
}

void learner_model::train(const actors::train_batch& batch) {
  if (!alive_ || hangs_ || batch.incarnation != incarnation_) return;
  if (busy_ || batch.from != current_->version)
    return truth_.violated(fmt::format("a batch is for version {}, the learner {} version {}",
                                       batch.from, busy_ ? "is stepping from" : "has",
                                       current_->version));
  busy_ = true;
  later(events_.between_ms(8, 30), [this, batch] { make_step(batch); });
}

void learner_model::make_step(const actors::train_batch& batch) {
  busy_ = false;
  if (hangs_) return;
  check(batch);
  base::hasher content;
  std::vector<sample_id> step;
  for (const auto& sample : batch.samples) {
    step.push_back(sample.sample);
    const auto tokens = content_of(sample.tokens);
    content.add(tokens.high).add(tokens.low);
  }
  actors::step_done done;
  done.incarnation = incarnation_;
  done.batch = batch.number;
  done.metrics = "{}";
  // Deterministic mode would make the step without its groups, and the ledger takes no such step.
  // Too many in a row end a run.
  if (!plan_.deterministic && truth_.left_out_in_a_row < 2 && !finite(content.digest())) {
    ++truth_.left_out;
    ++truth_.left_out_in_a_row;
    done.left_out = true;
    done.weights = newest();
    return on_step(done);
  }
  truth_.left_out_in_a_row = 0;
  current_ = weights::after(current_, content.digest(), std::move(step));
  truth_.all_weights[current_->hash] = current_;
  truth_.steps_made[incarnation_] = current_->version;
  done.offered = publish();
  done.weights = newest();
  if (!done.offered) {
    ++truth_.not_offered;
    watch_for_offer();
  }
  on_step(done);
}

void learner_model::save(const actors::save_checkpoint& order) {
  if (!alive_ || hangs_ || order.incarnation != incarnation_) return;
  if (order.version != current_->version)
    return truth_.violated(fmt::format("checkpoint {} is asked for, the learner has version {}",
                                       order.version, current_->version));
  later(events_.between_ms(5, 20), [this, order, now = current_] {
    const auto written = write_weights(order.folder, now->hash);
    if (!hangs_)
      on_saved(
          {order.version, order.folder, written ? "" : written.error().message, order.incarnation});
  });
}

// ---- host ----

env::verdict_kind true_verdict(const base::hash128& source) {
  const auto lot = mix(source, 1) % 100;
  if (lot < 60) return env::verdict_kind::ok;
  if (lot < 80) return env::verdict_kind::wrong_value;
  return env::verdict_kind::compile_error;
}

/// The speed-up x 100 that counts without a second measurement.
constexpr std::int64_t small_claim_e2 = 250;

/// Shorter than an evaluator's, as all times here.
constexpr env::device_quarantine::limits quarantine_limits{3, 150'000'000, 600'000'000, 50};

void host_model::start() {
  alive_ = true;
  frozen_until_ = 0;
  inbox_.clear();
  env::host_profile profile;
  profile.build = "simulation";
  profile.lanes = {std::string(lane)};
  profile.devices = {{0, std::string(device_class), plan_.slots}};
  profile.retry_ns = 150_ms;
  session_.emplace(profile, events_.random().next_u64());
  device_ = env::device_quarantine(quarantine_limits);
  told_out_ = false;
  beat();
}

void host_model::beat() {
  if (!frozen()) {
    look_at_device();
    carry_out(session_->on_time(events_.now()));
  }
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

/// The device's own test, as an evaluator makes it, and what control is told of it.
void host_model::look_at_device() {
  const auto now = events_.now();
  if (device_.test_due(now)) {
    const bool broken = now < broken_until_;
    device_.tested(broken ? std::optional<std::string>("still broken") : std::nullopt, now);
  }
  const bool out = device_.entry().has_value();
  if (out == std::exchange(told_out_, out)) return;
  carry_out(
      session_->device_state(0, out ? std::optional(device_.entry()->reason) : std::nullopt, now));
}

void host_model::finish(const env::job_message& job, bool failed, const std::string& text) {
  if (frozen()) {
    later(frozen_until_ - events_.now() + 1_ms,
          [this, job, failed, text] { finish(job, failed, text); });
    return;
  }
  if (failed && events_.now() < broken_until_)
    device_.failed(std::to_string(job.sample % 2), text, events_.now());
  if (!failed) device_.worked();
  carry_out(session_->finished(job.lease, {failed, text}, events_.now()));
  look_at_device();
}

void host_model::work(const env::host_job& job) {
  auto& random = events_.random();
  const auto source = base::xxh128(job.job.source);
  auto kind = true_verdict(source);
  bool fails = false;
  if (plan_.faults && !plan_.deterministic) {
    const bool cursed = mix(source, 2) % 25 == 0;  // never measured well
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
  if (events_.now() < std::max(truth_.sick_until_ns, broken_until_)) {
    fails = true;
    duration = 2_ms;
  }
  env::verdict verdict;
  verdict.kind = kind;
  verdict.task = task_of(job.job.task_hash);
  verdict.source = base::to_hex(job.job.source_hash);
  verdict.protocol = job.job.protocol;
  verdict.device_class = device_class;
  if (kind == env::verdict_kind::ok) {
    verdict.speedup_e2 = 50 + static_cast<std::int64_t>(mix(source, 4) % 300);
    // A second measurement bears every claim out.
    if (verdict.speedup_e2 > small_claim_e2 && job.job.recheck == 0) {
      verdict.claim_e2 = std::exchange(verdict.speedup_e2, small_claim_e2);
      truth_.claimed.insert(static_cast<sample_id>(job.job.sample));
    }
    verdict.confirmed = !verdict.claim_e2.has_value();
  }
  const auto text =
      fails ? std::string("the device is unhealthy") : base::dump(env::to_json(verdict));
  later(duration, [this, job = job.job, text, fails] { finish(job, fails, text); });
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
