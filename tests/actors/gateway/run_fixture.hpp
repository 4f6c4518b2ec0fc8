// A run's dispatching side for tests: a scheduler behind a gateway, committing at once or when
// told.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/decide/evaluation_scheduler.hpp"
#include "actors/gateway.hpp"
#include "base/clock.hpp"
#include "base/hash.hpp"

namespace quern::actors::test {

class run_fixture final : public gateway_events {
 public:
  explicit run_fixture(incarnation_id incarnation = 1, nanoseconds_t lease_ns = 20'000'000'000)
      : scheduler_(incarnation, limits(lease_ns)) {}

  base::status open(gateway_options options) {
    const std::lock_guard lock(mutex_);  // hosts may come before `start` has returned
    QUERN_TRY(gateway_, gateway::start(std::move(options), *this, clock_));
    return {};
  }
  void close() { gateway_.reset(); }
  gateway& door() { return *gateway_; }

  void submit(sample_id sample, const std::string& of_class = "cpp-test",
              const std::string& lane = "cpp") {
    const std::lock_guard lock(mutex_);
    lanes_[sample] = lane;
    (void)scheduler_.submit({sample, lane, of_class, {}});
    send_jobs();
  }
  /// Waits, up to a minute, until `so_far` (called under the lock) is true.
  template <class F>
  bool wait(F so_far) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), so_far);
  }

  // What happened; under the lock of `wait`.
  std::map<sample_id, int> accepted;
  std::map<sample_id, std::string> verdicts;
  std::map<session_id, std::string> lost;
  std::vector<session_id> joined;
  std::set<session_id> draining;
  std::vector<lease_result> given_back;  ///< by hosts that said goodbye
  std::map<sample_id, session_id> holder;
  std::map<lease_outcome, int> outcomes;
  std::vector<std::vector<env::quarantined_device>> quarantines;
  int tasks_asked = 0;
  bool commit_at_once = true;
  std::optional<std::string> task = "a task";
  std::map<std::string, std::string> tasks = {};  ///< by lanes; `task` of all others
  std::string source;                       ///< of every job; empty: one that names the sample
  env::job_message terms = {};              ///< of every job, where the fixture knows nothing else
  std::string device_class;                 ///< of the host that joined last
  env::hello_message hello;                 ///< likewise
  std::map<sample_id, device_key> sent_to;  ///< the device of each sample's last job

  void commit(session_id session, lease_id lease) {
    scheduler_.committed(lease);
    gateway_->acknowledge(session, lease, true);
  }

  void host_joined(session_id session, const env::hello_message& from) override {
    const std::lock_guard lock(mutex_);
    host_offer offer{from.lanes, {}};
    for (const auto& d : from.devices)
      offer.devices.push_back({d.id, d.device_class, d.slots, d.lanes});
    device_class = offer.devices.at(0).device_class;
    hello = from;
    (void)scheduler_.host_joined(session, offer);
    joined.push_back(session);
    changed_.notify_all();
  }
  void credit(session_id session, std::int64_t device, std::int64_t granted) override {
    const std::lock_guard lock(mutex_);
    (void)scheduler_.credit({session, device}, granted);
    send_jobs();
  }
  void verdict(session_id session, lease_id lease, const std::string& text) override {
    const std::lock_guard lock(mutex_);
    settle(session, lease,
           scheduler_.verdict(session, lease, env::verdict_kind::ok, clock_.now_ns()), text);
  }
  void failed(session_id session, lease_id lease, const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    settle(session, lease, scheduler_.failed(session, lease, clock_.now_ns()), reason);
  }
  void returned(session_id session, lease_id lease, const std::string& reason) override {
    const std::lock_guard lock(mutex_);
    settle(session, lease, scheduler_.returned(session, lease, clock_.now_ns()), reason);
  }
  void quarantined(session_id session,
                   const std::vector<env::quarantined_device>& devices) override {
    const std::lock_guard lock(mutex_);
    quarantines.push_back(devices);
    for (const std::int64_t device : {0, 1}) {
      const bool out = std::any_of(devices.begin(), devices.end(),
                                   [&](const auto& one) { return one.device == device; });
      scheduler_.device_out({session, device}, out);
    }
    send_jobs();
  }
  void host_draining(session_id session) override {
    const std::lock_guard lock(mutex_);
    scheduler_.host_draining(session);
    draining.insert(session);
    changed_.notify_all();
  }
  void host_lost(session_id session, const std::string& why) override {
    const std::lock_guard lock(mutex_);
    (void)scheduler_.host_lost(session, clock_.now_ns());
    lost[session] = why;
    send_jobs();
    changed_.notify_all();
  }
  void host_left(session_id session, const std::string& why) override {
    const std::lock_guard lock(mutex_);
    for (const lease_result& result : scheduler_.host_left(session, clock_.now_ns()))
      given_back.push_back(result);
    lost[session] = why;
    send_jobs();
    changed_.notify_all();
  }
  std::optional<std::string> task_text(const base::hash128& asked) override {
    const std::lock_guard lock(mutex_);
    ++tasks_asked;
    for (const auto& [lane, text] : tasks)
      if (base::xxh128(lane) == asked) return text;
    return task;
  }

 private:
  static evaluation_scheduler::limits limits(nanoseconds_t lease_ns) {
    evaluation_scheduler::limits bounds({{2, 3, 1, 1}, lease_ns});
    bounds.pause.patience_ns = 0;
    return bounds;
  }

  void settle(session_id session, lease_id lease, const lease_result& result,
              const std::string& text) {
    ++outcomes[result.outcome];
    if (result.outcome == lease_outcome::accepted) {
      ++accepted[result.sample];
      verdicts[result.sample] = text;
    }
    const bool fresh =
        result.outcome == lease_outcome::accepted || result.outcome == lease_outcome::retry ||
        result.outcome == lease_outcome::exhausted || result.outcome == lease_outcome::returned;
    if (fresh && commit_at_once) commit(session, lease);
    if (result.outcome == lease_outcome::repeated) gateway_->acknowledge(session, lease, true);
    if (result.outcome == lease_outcome::late || result.outcome == lease_outcome::unknown) {
      gateway_->acknowledge(session, lease, false);
    }
    send_jobs();
    changed_.notify_all();
  }
  void send_jobs() {
    while (const auto order = scheduler_.next(clock_.now_ns())) {
      holder[order->held.sample] = order->device.session;
      sent_to[order->held.sample] = order->device;
      env::job_message job = terms;
      job.session = order->device.session;
      job.lease = order->held.id;
      job.device = order->device.device;
      job.lane = lanes_.at(order->held.sample);
      job.protocol = "paired/1";
      job.sample = static_cast<std::uint64_t>(order->held.sample);
      job.attempt = order->held.attempt;
      if (job.deadline_ms == 0) job.deadline_ms = 20'000;
      job.task_hash = base::xxh128(job.lane);
      job.source = source.empty() ? "source " + std::to_string(order->held.sample) : source;
      gateway_->send_job(std::move(job));
    }
    changed_.notify_all();
  }

  base::steady_clock clock_;
  std::map<sample_id, std::string> lanes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  evaluation_scheduler scheduler_;
  std::unique_ptr<gateway> gateway_;
};

}  // namespace quern::actors::test
