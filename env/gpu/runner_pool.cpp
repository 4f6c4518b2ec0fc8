// Runner processes with their contexts made ahead.
#include "env/gpu/runner_pool.hpp"

#include <chrono>

namespace quern::env {

gpu_runner_pool::gpu_runner_pool(spawner& children, gpu_runner_start how, gpu_pool_options options,
                                 device_quiet& quiet, gpu_parts* parts)
    : children_(children),
      start_(std::move(how)),
      options_(std::move(options)),
      quiet_(quiet),
      parts_(parts) {
  of(work_queues::one).ahead = options_.ahead;
  for (std::size_t i = 0; i < options_.makers; ++i)
    makers_.emplace_back([this] { work(); });
}

gpu_runner_pool::~gpu_runner_pool() {
  {
    const std::lock_guard lock(guard_);
    stop_ = true;
  }
  wanted_.notify_all();
  quiet_.let_go_on();
  for (auto& maker : makers_)
    maker.join();
}

std::size_t gpu_runner_pool::ready() const {
  const std::lock_guard lock(guard_);
  return kinds_.front().ready.size() + kinds_.back().ready.size();
}

base::expected<std::unique_ptr<gpu_runner_process>> gpu_runner_pool::take(work_queues queues) {
  constexpr auto step = std::chrono::milliseconds(5);
  std::unique_lock lock(guard_);
  auto& those = of(queues);
  // Many runs never ask for them.
  if (queues == work_queues::all) those.ahead = options_.ahead_all;
  ++those.waiting;
  // Those in making may fail for what was so before: a candidate that had taken all memory.
  for (std::size_t tries = 1 + those.in_making; tries > 0; --tries) {
    those.failed.reset();
    wanted_.notify_all();
    // What was stopped may have to be let go on more than once: another evaluator measures, too.
    while (!made_.wait_for(lock, step, [&] { return those.any_alive() || those.failed; })) {
      quiet_.let_go_on();
      wanted_.notify_all();  // for those that had ended
    }
    if (!those.ready.empty()) break;
  }
  --those.waiting;
  if (those.ready.empty()) return tl::make_unexpected(*those.failed);
  auto process = std::move(those.ready.front());
  those.ready.pop_front();
  wanted_.notify_all();
  return process;
}

base::expected<std::unique_ptr<gpu_runner_process>> gpu_runner_pool::make(work_queues queues) {
  std::unique_ptr<gpu_runner_process> made;
  {
    const part_clock clock(parts_, gpu_part::pool_spawn);
    gpu_runner_start how = start_;
    how.queues = queues;
    QUERN_TRY(made, gpu_runner_process::start(children_, how));
  }
  // Two at once would only hold each other up in the driver.
  std::unique_lock turn(contexts_, std::defer_lock);
  std::optional<device_quiet::interruptible> noise;
  {
    const part_clock clock(parts_, gpu_part::pool_wait);
    turn.lock();
    noise.emplace(quiet_, [process = made.get()](bool paused) { process->set_paused(paused); });
  }
  {
    const part_clock clock(parts_, gpu_part::pool_context);
    QUERN_CHECK(made->open());
  }
  if (options_.prepare) {
    const part_clock clock(parts_, gpu_part::pool_map);
    QUERN_CHECK(options_.prepare(*made));
  }
  noise.reset();
  return made;
}

bool gpu_runner_pool::kind::any_alive() {
  while (!ready.empty() && ready.front()->has_ended())
    ready.pop_front();
  return !ready.empty();
}

gpu_runner_pool::kind* gpu_runner_pool::lacking() {
  const auto coming = [](const kind& k) { return k.ready.size() + k.in_making; };
  for (auto& k : kinds_)
    if (coming(k) < k.waiting) return &k;
  // After a failure only somebody who waits makes it try again.
  for (auto& k : kinds_)
    if (coming(k) < k.ahead && !k.failed) return &k;
  return nullptr;
}

void gpu_runner_pool::work() {
  std::unique_lock lock(guard_);
  for (;;) {
    kind* which = nullptr;
    wanted_.wait(lock, [&] { return stop_ || (which = lacking()) != nullptr; });
    if (stop_) return;
    ++which->in_making;
    lock.unlock();
    auto started = make(static_cast<work_queues>(which - kinds_.data()));
    lock.lock();
    --which->in_making;
    if (started)
      which->ready.push_back(std::move(*started));
    else
      which->failed = started.error();
    made_.notify_all();
    if (!started)
      wanted_.wait(lock, [&] { return stop_ || which->waiting == 0 || !which->failed; });
  }
}

}  // namespace quern::env
