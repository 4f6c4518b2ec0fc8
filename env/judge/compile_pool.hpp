// Candidates compiled ahead of their turn by threads of their own, so that a device that judges one
// after the other does not wait for compilers.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "env/judge/evaluation_request.hpp"
#include "env/judge/judge.hpp"

namespace quern::env {

class compile_pool {
 public:
  /// `with` must outlive the pool.
  compile_pool(candidate_judge& with, int threads);
  /// Forgets what nobody has begun, waits for what somebody has.
  ~compile_pool();
  compile_pool(const compile_pool&) = delete;
  compile_pool& operator=(const compile_pool&) = delete;

  /// Puts a request at the end of the line. Any thread.
  void add(evaluation_request request);

 private:
  void work();

  candidate_judge& judge_;
  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<evaluation_request> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace quern::env
