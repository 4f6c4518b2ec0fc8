#include "tools/bench/bench_run.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/measuring_cores.hpp"
#include "base/thread_deadline.hpp"
#include "tools/bench/results.hpp"
#include "tools/bench/work_list.hpp"

namespace quern::tools {
namespace {

/// The threads that compile ahead for one judge.
class ahead_compilers {
 public:
  ahead_compilers(env::candidate_judge& judge, std::span<const env::evaluation_request> requests,
                  int threads)
      : judge_(judge), requests_(requests) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] { work(); });
  }
  ~ahead_compilers() {
    {
      const std::lock_guard lock(guard_);
      waiting_.clear();
      end_ = true;
    }
    changed_.notify_all();
    for (std::thread& one : threads_)
      one.join();
  }
  ahead_compilers(const ahead_compilers&) = delete;
  ahead_compilers& operator=(const ahead_compilers&) = delete;

  void add(std::size_t item) {
    if (threads_.empty()) return;
    {
      const std::lock_guard lock(guard_);
      waiting_.push_back(item);
    }
    changed_.notify_all();
  }

  /// What waits is of no use any more.
  void forget() {
    const std::lock_guard lock(guard_);
    waiting_.clear();
  }

  /// Waits until something is compiled that was not settled, or nothing will be.
  void wait_for_one() {
    std::unique_lock lock(guard_);
    changed_.wait(lock, [&] { return !done_.empty() || (waiting_.empty() && running_.empty()); });
  }

  /// Whether wait_for_one() would wait.
  [[nodiscard]] bool is_awaited() {
    const std::lock_guard lock(guard_);
    return done_.empty() && !(waiting_.empty() && running_.empty());
  }

  [[nodiscard]] bool is_done(std::size_t item) {
    const std::lock_guard lock(guard_);
    return done_.contains(item);
  }

  /// Call before `item` is evaluated: waits for a compilation of it that has begun, and prevents
  /// one that has not, since evaluate() would do the same work beside it.
  void settle(std::size_t item) {
    std::unique_lock lock(guard_);
    waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), item), waiting_.end());
    changed_.wait(lock, [&] { return !running_.contains(item); });
    done_.erase(item);
  }

 private:
  void work() {
    std::unique_lock lock(guard_);
    while (true) {
      changed_.wait(lock, [&] { return end_ || !waiting_.empty(); });
      if (end_) return;
      const std::size_t item = waiting_.front();
      waiting_.pop_front();
      running_.insert(item);
      lock.unlock();
      {
        const base::thread_deadline limit(requests_[item].time_limit_s);
        const base::off_measuring_cores beside;
        judge_.compile_ahead(requests_[item]);
      }
      lock.lock();
      running_.erase(item);
      done_.insert(item);
      changed_.notify_all();
    }
  }

  env::candidate_judge& judge_;
  std::span<const env::evaluation_request> requests_;
  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<std::size_t> waiting_;
  std::set<std::size_t> running_, done_;
  bool end_ = false;
  std::vector<std::thread> threads_;
};

/// A stop, which a signal handler sets, is seen so late at most.
constexpr base::nanoseconds_t look_for_stop = 100'000'000;

env::verdict left_out_verdict(env::verdict v, int troubles, const std::string& trouble) {
  v.kind = env::verdict_kind::infra_error;
  v.reason = left_out_reason;
  v.detail = fmt::format(
      "left out: a device went into quarantine {} while this was judged, the last time: {}{}",
      troubles == 1 ? "once" : fmt::format("{} times", troubles), trouble,
      v.detail.empty() ? "" : " (" + v.detail + ")");
  v.detail.resize(std::min(v.detail.size(), env::max_verdict_text));
  return v;
}

/// What the threads of a run share.
class shared_run {
 public:
  shared_run(std::span<const env::evaluation_request> to_judge, const bench_run_options& how,
             const std::atomic<bool>& stop, const judged_item& done,
             std::span<const std::size_t> task_of, std::size_t workers)
      : requests(to_judge),
        options(how),
        work(task_of, workers),
        stop_(stop),
        done_(done),
        open_(to_judge.size()) {}

  const std::span<const env::evaluation_request> requests;
  const bench_run_options& options;
  work_list work;

  [[nodiscard]] bool ended() const { return stop_ || halted_; }

  /// The last word about an item.
  void tell(std::size_t item, const env::verdict& v, std::size_t judge) {
    const std::lock_guard lock(guard_);
    tell_locked(item, v, judge);
  }

  /// A device was in trouble when `item` had been judged, `v` says nothing about it. `counts`:
  /// nothing but the item itself can be the reason, as far as one can see.
  void trouble_at(std::size_t item, const env::verdict& v, std::size_t judge,
                  const std::string& trouble, bool counts) {
    const std::lock_guard lock(guard_);
    int& troubles = troubles_[item];
    troubles += counts ? 1 : 0;
    if (counts && troubles >= options.most_troubles) {
      tell_locked(item, left_out_verdict(v, troubles, trouble), judge);
      return;
    }
    // Others first: what it does to the next device, it does when nobody waits for that one.
    work.put_off(item);
    changed_.notify_all();
  }

  void give_back(std::size_t worker) {
    const std::lock_guard lock(guard_);
    work.give_back(worker);
    changed_.notify_all();
  }

  void give_up(std::string why) {
    const std::lock_guard lock(guard_);
    given_up_.push_back(std::move(why));
  }

  /// Waits until there is something to claim, which others may give back to the last. False: there
  /// never will be.
  bool wait_for_work() {
    std::unique_lock lock(guard_);
    while (!ended() && open_ > 0) {
      if (work.any_left()) return true;
      changed_.wait_for(lock, std::chrono::nanoseconds(look_for_stop));
    }
    return false;
  }

  /// Lets some time go by. False: nothing is left to be done.
  bool wait(base::nanoseconds_t time) {
    std::unique_lock lock(guard_);
    const base::steady_clock clock;
    const base::nanoseconds_t end = clock.now_ns() + time;
    while (!ended() && open_ > 0) {
      const base::nanoseconds_t left = end - clock.now_ns();
      if (left <= 0) return true;
      changed_.wait_for(lock, std::chrono::nanoseconds(std::min(left, look_for_stop)));
    }
    return false;
  }

  /// When all threads are over.
  std::vector<std::string> take_given_up() { return std::move(given_up_); }

 private:
  void tell_locked(std::size_t item, const env::verdict& v, std::size_t judge) {
    --open_;
    if (!done_(item, v, judge)) halted_ = true;
    changed_.notify_all();
  }

  const std::atomic<bool>& stop_;
  const judged_item& done_;
  std::atomic<bool> halted_ = false;
  std::mutex guard_;  ///< of what follows, and of calls of done_
  std::condition_variable changed_;
  std::size_t open_;  ///< items without a last word
  std::map<std::size_t, int> troubles_;
  std::vector<std::string> given_up_;
};

/// A large claim that nothing has borne out yet: it is capped, and no last word.
bool is_open_claim(const env::verdict& v) {
  return v.kind == env::verdict_kind::ok && v.confirmed == false;
}

env::verdict judge_patiently(env::candidate_judge& judge, const env::evaluation_request& request,
                             const shared_run& run) {
  env::verdict v = judge.evaluate(request);
  // A stop waits for all tries: a later run would take what is told now for the last word.
  for (int tries = 1; tries < run.options.tries &&
                      (!env::judges_candidate(v.kind) || is_open_claim(v)) && !judge.trouble();
       ++tries) {
    env::evaluation_request again = request;
    again.seed += static_cast<std::uint64_t>(tries);
    again.recheck = true;
    v = judge.evaluate(again);
  }
  // Who asks once may ask again later.
  if (run.options.tries > 1 && is_open_claim(v)) {
    v.kind = env::verdict_kind::unconfirmed;
    v.detail += fmt::format(", which none has done in {} tries", run.options.tries);
    v.speedup_e2.reset();
    v.claim_e2.reset();
  }
  return v;
}

/// Waits until the device takes work again; false: it is given up, or nothing is left to be done.
bool recovered(env::candidate_judge& judge, shared_run& run) {
  const base::steady_clock clock;
  const base::nanoseconds_t end = clock.now_ns() + run.options.recover_within;
  while (const auto trouble = judge.trouble()) {
    const bool patient = clock.now_ns() < end;
    if (!run.wait(patient ? run.options.recover_every : 0)) return false;
    if (!patient) {
      run.give_up(trouble->reason);
      return false;
    }
    judge.recover();
  }
  return true;
}

void run_judge(env::candidate_judge& judge, std::size_t worker, shared_run& run) {
  judge.warm_up();
  ahead_compilers compilers(judge, run.requests, run.options.compilers);
  const std::size_t ahead = 1 + 2 * static_cast<std::size_t>(std::max(0, run.options.compilers));
  int failures = 0;                         // candidates in a row
  bool others_failed = false;               // some of them while the device was well
  std::optional<std::size_t> failed_alone;  // the one, where it was one each time
  std::deque<std::size_t> unprepared;       // claimed since something was compiled
  while (!run.ended()) {
    if (judge.trouble()) {
      compilers.forget();
      run.give_back(worker);
      if (!recovered(judge, run)) return;
    }
    for (const std::size_t item : run.work.claim(worker, ahead)) {
      compilers.add(item);
      unprepared.push_back(item);
    }
    for (; !unprepared.empty() && compilers.is_awaited() && !run.ended(); unprepared.pop_front())
      if (!judge.prepare_ahead(run.requests[unprepared.front()])) break;
    // No candidate is to blame for a device that a task has put into trouble.
    if (judge.trouble()) {
      unprepared.clear();
      continue;
    }
    compilers.wait_for_one();
    unprepared.clear();
    auto next = run.work.next(worker, [&](std::size_t item) { return compilers.is_done(item); });
    if (!next) next = run.work.claim_put_off();
    if (!next) {
      if (run.wait_for_work()) continue;
      return;
    }
    const std::size_t item = *next;
    compilers.settle(item);
    const env::verdict v = judge_patiently(judge, run.requests[item], run);
    const auto trouble = judge.trouble();
    // What failed with the device says nothing about the candidate, whatever it is called.
    const bool put_out = trouble && !env::judges_candidate(v.kind);
    const bool failed = put_out || v.kind == env::verdict_kind::infra_error;
    if (put_out) {
      // Behind another one's failure it is rather the device.
      run.trouble_at(item, v, worker, trouble->reason,
                     !others_failed && (failures == 0 || failed_alone == item));
    } else {
      run.tell(item, v, worker);
    }
    others_failed = failed && (others_failed || !put_out);
    failed_alone = failures == 0 || failed_alone == item ? std::optional(item) : std::nullopt;
    failures = failed ? failures + 1 : 0;
    // A device that got well again each time has passed a test of its own each time.
    if (failures < run.options.patience * (others_failed ? 1 : 2)) continue;
    run.give_up(trouble ? trouble->reason : v.detail.empty() ? env::summary(v) : v.detail);
    break;
  }
  run.give_back(worker);
}

}  // namespace

std::vector<std::string> run_bench(std::span<env::candidate_judge* const> judges,
                                   std::span<const env::evaluation_request> requests,
                                   std::span<const std::size_t> items,
                                   const bench_run_options& options, const std::atomic<bool>& stop,
                                   const judged_item& done) {
  // The list works on positions, so that items may be any subset of the requests.
  std::vector<env::evaluation_request> chosen;
  std::vector<std::size_t> task_of;
  std::map<const env::task*, std::size_t> tasks;
  for (const std::size_t item : items) {
    chosen.push_back(requests[item]);
    task_of.push_back(tasks.try_emplace(requests[item].subject.get(), tasks.size()).first->second);
  }
  const judged_item tell = [&](std::size_t position, const env::verdict& v, std::size_t judge) {
    return done(items[position], v, judge);
  };
  shared_run run(chosen, options, stop, tell, task_of, judges.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < judges.size(); ++i)
    threads.emplace_back([&, i] { run_judge(*judges[i], i, run); });
  for (std::thread& one : threads)
    one.join();
  return run.take_given_up();
}

}  // namespace quern::tools
