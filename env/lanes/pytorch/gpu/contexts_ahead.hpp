// Children of a warm Python that make their contexts beside what comes next.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.hpp"
#include "env/gpu/quiet.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"

namespace quern::env {

/// Has children stand ready. While they make contexts they disturb the device: they stand still
/// while this evaluator measures, and evaluators of other processes wait for their end. When all of
/// them stand, the device is given free by a thread of this object, since nobody asks an evaluator
/// that has no work.
///
/// order() is called by the thread that uses the zygote, where nothing is measured.
class contexts_ahead {
 public:
  /// Both outlive it.
  contexts_ahead(device_quiet& quiet, python_zygote& zygote);
  ~contexts_ahead();
  contexts_ahead(const contexts_ahead&) = delete;
  contexts_ahead& operator=(const contexts_ahead&) = delete;

  /// As python_zygote::prefork().
  void order(const python_start& how, int children, int below);

  /// Whether the device may be disturbed by children of this object now.
  [[nodiscard]] bool in_making() const;

 private:
  void set_paused(bool paused);
  void watch(const std::stop_token& over);
  /// Whether all that were ordered stand, or there is nobody who would; false where they were
  /// stopped. Does not wait.
  bool all_ready();

  device_quiet& quiet_;
  python_zygote& zygote_;
  std::mutex asking_;  ///< of `paused_`, and of questions that let children go on
  bool paused_ = false;
  mutable std::mutex guard_;  ///< of what follows
  std::condition_variable_any ordered_;
  std::optional<device_quiet::interruptible> noise_;
  base::steady_clock clock_;
  base::nanoseconds_t look_at_ = 0;  ///< when it is looked whether they stand
  std::uint64_t orders_ = 0;
  std::jthread watcher_;  // the last: it uses the others
};

}  // namespace quern::env
