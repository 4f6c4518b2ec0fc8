#include "tools/bench/bench_run.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <set>
#include <thread>

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

  /// Call before `item` is evaluated: waits for a compilation of it that has begun, and prevents
  /// one that has not, since evaluate() would do the same work beside it.
  void settle(std::size_t item) {
    std::unique_lock lock(guard_);
    waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), item), waiting_.end());
    changed_.wait(lock, [&] { return !running_.contains(item); });
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
      judge_.compile_ahead(requests_[item]);
      lock.lock();
      running_.erase(item);
      changed_.notify_all();
    }
  }

  env::candidate_judge& judge_;
  std::span<const env::evaluation_request> requests_;
  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<std::size_t> waiting_;
  std::set<std::size_t> running_;
  bool end_ = false;
  std::vector<std::thread> threads_;
};

/// What the threads of a run share.
struct shared_run {
  std::span<const env::evaluation_request> requests;
  const bench_run_options& options;
  const std::atomic<bool>& stop;
  const std::function<bool(std::size_t, const env::verdict&)>& done;
  work_list work;
  std::mutex telling = {};
  std::vector<std::string> given_up = {};
  std::atomic<bool> halted = false;

  [[nodiscard]] bool ended() const { return stop || halted; }
};

env::verdict judge_patiently(env::candidate_judge& judge, const env::evaluation_request& request,
                             const shared_run& run) {
  env::verdict v = judge.evaluate(request);
  // A stop waits for all tries: a later run would take what is told now for the last word.
  for (int tries = 1; tries < run.options.tries && !env::judges_candidate(v.kind); ++tries) {
    env::evaluation_request again = request;
    again.seed += static_cast<std::uint64_t>(tries);
    again.recheck = true;
    v = judge.evaluate(again);
  }
  return v;
}

void run_judge(env::candidate_judge& judge, std::size_t worker, shared_run& run) {
  judge.warm_up();
  ahead_compilers compilers(judge, run.requests, run.options.compilers);
  const std::size_t ahead = 1 + 2 * static_cast<std::size_t>(std::max(0, run.options.compilers));
  std::deque<std::size_t> mine;
  int failures = 0;
  while (!run.ended()) {
    for (const std::size_t item : run.work.claim(worker, ahead - mine.size())) {
      mine.push_back(item);
      compilers.add(item);
    }
    if (mine.empty()) return;
    const std::size_t item = mine.front();
    mine.pop_front();
    compilers.settle(item);
    const env::verdict v = judge_patiently(judge, run.requests[item], run);
    failures = v.kind == env::verdict_kind::infra_error ? failures + 1 : 0;
    const auto trouble = judge.trouble();
    const std::lock_guard lock(run.telling);
    if (trouble) {
      // What failed with the device is another one's to judge.
      if (v.kind == env::verdict_kind::infra_error) {
        mine.push_front(item);
      } else if (!run.done(item, v)) {
        run.halted = true;
      }
      run.given_up.push_back(trouble->reason);
      break;
    }
    if (!run.done(item, v)) run.halted = true;
    if (failures < run.options.patience) continue;
    run.given_up.push_back(v.detail.empty() ? env::summary(v) : v.detail);
    break;
  }
  run.work.give_back(std::vector<std::size_t>(mine.begin(), mine.end()));
}

}  // namespace

work_list::work_list(std::span<const std::size_t> task_of, std::size_t workers)
    : task_of_(task_of.begin(), task_of.end()), at_(workers) {
  std::size_t tasks = 0;
  for (const std::size_t task : task_of)
    tasks = std::max(tasks, task + 1);
  piles_.resize(tasks);
  for (std::size_t i = task_of_.size(); i-- > 0;)
    piles_[task_of_[i]].items.push_back(i);
  std::fill(at_.begin(), at_.end(), tasks);
  left_ = task_of_.size();
}

std::size_t work_list::richest() const {
  std::size_t best = piles_.size();
  double most = 0;
  for (std::size_t i = 0; i < piles_.size(); ++i) {
    // A task that others are at is shared only when no other is left.
    const double worth =
        static_cast<double>(piles_[i].items.size()) *
        (piles_[i].workers == 0 ? 1e9 : 1.0 / static_cast<double>(piles_[i].workers));
    if (worth > most) {
      most = worth;
      best = i;
    }
  }
  return best;
}

std::vector<std::size_t> work_list::claim(std::size_t worker, std::size_t most) {
  const std::lock_guard lock(guard_);
  std::vector<std::size_t> taken;
  // What one holds, others cannot take: near the end that would make them wait for it.
  if (at_.size() > 1) most = std::min(most, std::max<std::size_t>(1, left_ / (2 * at_.size())));
  std::size_t& at = at_[worker];
  while (taken.size() < most && left_ > 0) {
    if (at == piles_.size() || piles_[at].items.empty()) {
      if (at != piles_.size()) --piles_[at].workers;
      at = richest();
      ++piles_[at].workers;
    }
    taken.push_back(piles_[at].items.back());
    piles_[at].items.pop_back();
    --left_;
  }
  return taken;
}

void work_list::give_back(std::span<const std::size_t> items) {
  const std::lock_guard lock(guard_);
  for (const std::size_t item : items)
    piles_[task_of_[item]].items.push_back(item);
  left_ += items.size();
}

bool is_final(env::verdict_kind kind) {
  return kind != env::verdict_kind::infra_error && kind != env::verdict_kind::invalid_reference;
}

std::vector<std::string> run_bench(
    std::span<env::candidate_judge* const> judges,
    std::span<const env::evaluation_request> requests, std::span<const std::size_t> items,
    const bench_run_options& options, const std::atomic<bool>& stop,
    const std::function<bool(std::size_t item, const env::verdict&)>& done) {
  // The list works on positions, so that items may be any subset of the requests.
  std::vector<env::evaluation_request> chosen;
  std::vector<std::size_t> task_of;
  std::map<const env::task*, std::size_t> tasks;
  for (const std::size_t item : items) {
    chosen.push_back(requests[item]);
    task_of.push_back(tasks.try_emplace(requests[item].subject.get(), tasks.size()).first->second);
  }
  const std::function<bool(std::size_t, const env::verdict&)> tell =
      [&](std::size_t position, const env::verdict& v) { return done(items[position], v); };
  shared_run run{chosen, options, stop, tell, work_list(task_of, judges.size())};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < judges.size(); ++i)
    threads.emplace_back([&, i] { run_judge(*judges[i], i, run); });
  for (std::thread& one : threads)
    one.join();
  return std::move(run.given_up);
}

}  // namespace quern::tools
