// How fast jobs get to hosts. `bench_dispatch [JOBS]` prints: the time from "a job is there" to
// "the host begins it" through real ROUTER and DEALER sockets, idle and loaded, and the rate at
// which the scheduler serves 64 hosts without them.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "actors/decide/evaluation_scheduler.hpp"
#include "actors/gateway.hpp"
#include "base/file.hpp"
#include "env/plugin/host_loop.hpp"

namespace {

using namespace quern;
using actors::evaluation_scheduler;
using base::nanoseconds_t;

constexpr const char* lane = "cpp";
constexpr const char* device_class = "cpp-bench";

evaluation_scheduler::limits scheduler_limits(actors::dispatcher::limits queue) {
  // No job of this benchmark fails.
  evaluation_scheduler::limits limits({actors::retry_limits::within(1), 60'000'000'000});
  limits.queue = queue;
  return limits;
}

/// A scheduler behind a gateway; every verdict counts and is acknowledged at once.
class bench_run final : public actors::gateway_events {
 public:
  explicit bench_run(std::size_t jobs)
      : submitted_(jobs),
        sent_(jobs),
        begun_(jobs),
        scheduler_(1, scheduler_limits({jobs + 1, 1024})) {}

  base::status open(const std::string& endpoint) {
    actors::gateway_options options;
    options.endpoints = {endpoint};
    options.incarnation = 1;
    const std::lock_guard lock(mutex_);  // hosts may come before `start` has returned
    QUERN_TRY(gateway_, actors::gateway::start(options, *this, clock_));
    return {};
  }
  void submit(std::size_t job) {
    const std::lock_guard lock(mutex_);
    submitted_[job] = clock_.now_ns();
    (void)scheduler_.submit({static_cast<actors::sample_id>(job), lane, device_class, {}});
    send_jobs();
  }
  void begins(std::uint64_t job) { begun_[job] = clock_.now_ns(); }
  void wait_until_done(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= count; });
  }
  void wait_for_hosts(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return hosts_ >= count; });
  }
  /// Microseconds at the given share of the jobs from `from` on.
  double latency(double share, bool from_submission) const {
    std::vector<nanoseconds_t> times;
    for (std::size_t i = 0; i < begun_.size(); ++i) {
      times.push_back(begun_[i] - (from_submission ? submitted_[i] : sent_[i]));
    }
    std::sort(times.begin(), times.end());
    const auto at = static_cast<std::size_t>(share * static_cast<double>(times.size() - 1));
    return static_cast<double>(times[at]) / 1e3;
  }
  void close() { gateway_.reset(); }

  void host_joined(actors::session_id session, const env::hello_message& hello) override {
    const std::lock_guard lock(mutex_);
    (void)scheduler_.host_joined(session, {{lane}, {{0, device_class, hello.devices[0].slots}}});
  }
  void credit(actors::session_id session, std::int64_t device, std::int64_t granted) override {
    const std::lock_guard lock(mutex_);
    if (scheduler_.queue().granted({session, device}) == 0) ++hosts_;
    (void)scheduler_.credit({session, device}, granted);
    send_jobs();
    changed_.notify_all();
  }
  void verdict(actors::session_id session, actors::lease_id lease, const std::string&) override {
    const std::lock_guard lock(mutex_);
    (void)scheduler_.verdict(session, lease, env::verdict_kind::ok, clock_.now_ns());
    scheduler_.committed(lease);
    gateway_->acknowledge(session, lease, true);
    ++done_;
    changed_.notify_all();
  }
  void failed(actors::session_id, actors::lease_id, const std::string&) override {}
  void host_draining(actors::session_id) override {}
  void host_lost(actors::session_id, const std::string&) override {}
  void host_left(actors::session_id, const std::string&) override {}
  std::optional<std::string> task_text(const base::hash128&) override { return "a task"; }

 private:
  void send_jobs() {
    while (const auto order = scheduler_.next(clock_.now_ns())) {
      env::job_message job;
      job.session = order->device.session;
      job.lease = order->held.id;
      job.lane = lane;
      job.sample = static_cast<std::uint64_t>(order->held.sample);
      job.deadline_ms = 60'000;
      job.source = std::string(2000, 'x');
      sent_[job.sample] = clock_.now_ns();
      gateway_->send_job(std::move(job));
    }
  }

  base::steady_clock clock_;
  std::vector<nanoseconds_t> submitted_, sent_, begun_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
  std::size_t hosts_ = 0;
  evaluation_scheduler scheduler_;
  std::unique_ptr<actors::gateway> gateway_;
};

int fail(const base::error& problem) {
  fmt::print(stderr, "{}\n", problem.message);
  return 1;
}

/// Jobs one at a time, or all at once to `hosts` hosts; prints a line.
base::status through_sockets(const char* what, std::size_t jobs, int hosts, bool one_at_a_time) {
  QUERN_TRY(const auto folder, base::temp_folder::make());
  const std::string endpoint = "ipc://" + (folder.path() / "hosts").string();
  bench_run run(jobs);
  QUERN_CHECK(run.open(endpoint));
  std::vector<std::unique_ptr<env::host_loop>> loops;
  std::vector<std::thread> threads;
  for (int h = 0; h < hosts; ++h) {
    env::host_options options;
    options.endpoint = endpoint;
    options.profile = {"bench", {lane}, {{0, device_class, 16}}};
    QUERN_TRY(auto loop, env::host_loop::make(options, [&](const env::host_job& job, const auto&) {
                run.begins(job.job.sample);
                return env::host_result{false, "{}"};
              }));
    loops.push_back(std::move(loop));
    threads.emplace_back([raw = loops.back().get()] { (void)raw->run(); });
  }
  run.wait_for_hosts(static_cast<std::size_t>(hosts));
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t job = 0; job < jobs; ++job) {
    run.submit(job);
    if (!one_at_a_time) continue;
    run.wait_until_done(job + 1);
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  run.wait_until_done(jobs);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  fmt::print(
      "{}: {} jobs, {} hosts, {:.0f} jobs/s; from {} to begin: p50 {:.0f} us, p99 {:.0f} us, max "
      "{:.0f} us\n",
      what, jobs, hosts, static_cast<double>(jobs) / took.count(),
      one_at_a_time ? "submission" : "assignment", run.latency(0.5, one_at_a_time),
      run.latency(0.99, one_at_a_time), run.latency(1.0, one_at_a_time));
  for (auto& loop : loops)
    loop->stop();
  for (auto& thread : threads)
    thread.join();
  run.close();
  return {};
}

/// The scheduler alone: 64 hosts of 4 slots, each finishing its jobs in turn.
void scheduler_alone(std::int64_t jobs) {
  evaluation_scheduler scheduler(1, scheduler_limits({1024, 1024}));
  constexpr int hosts = 64;
  constexpr int slots = 4;
  std::vector<std::int64_t> granted(hosts + 1, slots);
  for (int h = 1; h <= hosts; ++h) {
    (void)scheduler.host_joined(static_cast<actors::session_id>(h),
                                {{lane}, {{0, device_class, slots}}});
    (void)scheduler.credit({static_cast<actors::session_id>(h), 0}, slots);
  }
  const auto begun = std::chrono::steady_clock::now();
  std::vector<actors::job_order> held;
  std::int64_t next = 0;
  std::int64_t done = 0;
  nanoseconds_t now = 0;
  while (done < jobs) {
    while (next < jobs && scheduler.submit({next, lane, device_class, {}}))
      ++next;
    while (const auto order = scheduler.next(now))
      held.push_back(*order);
    for (const auto& order : held) {
      (void)scheduler.verdict(order.device.session, order.held.id, env::verdict_kind::ok, ++now);
      scheduler.committed(order.held.id);
      (void)scheduler.credit(order.device, ++granted[order.device.session]);
      ++done;
    }
    held.clear();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  fmt::print("scheduler alone, {} hosts, no ledger: {} jobs, {:.0f} jobs/s\n", hosts, jobs,
             static_cast<double>(jobs) / took.count());
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t jobs = 2000;
  CLI::App app("bench_dispatch: from submission to begin, through real sockets and without them");
  app.add_option("jobs", jobs, "when idle; five times as many when loaded")
      ->check(CLI::Range(1, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  if (auto idle = through_sockets("idle", jobs, 1, true); !idle) return fail(idle.error());
  if (auto loaded = through_sockets("loaded", jobs * 5, 4, false); !loaded)
    return fail(loaded.error());
  scheduler_alone(static_cast<std::int64_t>(jobs) * 250);
  return 0;
}
