// Threads that compile what will be judged.
#include "env/judge/compile_pool.hpp"

#include <utility>

#include "base/measuring_cores.hpp"

namespace quern::env {

compile_pool::compile_pool(candidate_judge& with, int threads) : judge_(with) {
  for (int k = 0; k < threads; ++k)
    threads_.emplace_back([this] { work(); });
}

compile_pool::~compile_pool() {
  {
    const std::lock_guard lock(guard_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& one : threads_)
    one.join();
}

void compile_pool::add(evaluation_request request) {
  {
    const std::lock_guard lock(guard_);
    waiting_.push_back(std::move(request));
  }
  changed_.notify_one();
}

void compile_pool::work() {
  for (;;) {
    evaluation_request next;
    {
      std::unique_lock lock(guard_);
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const base::off_measuring_cores beside;
    judge_.compile_ahead(next);
  }
}

}  // namespace quern::env
