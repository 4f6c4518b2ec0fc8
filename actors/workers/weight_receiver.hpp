// A generator's end of its link for weights: they arrive while it goes on, and are installed
// between two of its steps once they are what was announced.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "actors/messages.hpp"
#include "actors/workers/device_share.hpp"
#include "actors/workers/link_end.hpp"
#include "base/status.hpp"
#include "policy/engine/generator.hpp"
#include "policy/weights/plan.hpp"

namespace quern::actors {

/// What comes over a link, and where to.
struct weight_source {
  std::string address;
  std::string host = "127.0.0.1";  ///< by which the learner's rank 0 reaches this process
  weights_version version = 0;     ///< that the generator begins with
  policy::model_config model;
  std::int32_t ranks = 1;            ///< of the learner, whose arena is laid out for them
  at::ScalarType type = at::kFloat;  ///< of the learner's arena and of the generator's
  at::Device device = at::kCPU;
};

/// One thread calls it; another one of its own receives.
class weight_receiver {
 public:
  /// Called on the receiving thread. Empty: weights have arrived, so look at `install`; else why
  /// the link is over.
  using news = std::function<void(const std::string& problem)>;

  /// Opens the link in the background, for as long as the learner takes to come. `share`: the GPU,
  /// where evaluators measure on it.
  static base::expected<std::unique_ptr<weight_receiver>> make(weight_source from,
                                                               device_share share, news told);
  /// Ends the link.
  ~weight_receiver();
  weight_receiver(const weight_receiver&) = delete;
  weight_receiver& operator=(const weight_receiver&) = delete;

  /// The next version may be written to `room`, until `install` has given it free.
  void begin(policy::parameter_arena room);
  /// What may be installed from now on, in place of what was announced before.
  void announce(const weights_ready& ready);
  /// Whether `install` has something to do.
  [[nodiscard]] bool due() const;
  /// Between two steps of `engine`: installs what has arrived if it is what was announced; whether
  /// it did. What is newer waits for its announcement, what is older makes room for the next.
  /// Error: corrupt, when it is not what the announcement says; the engine keeps the version that
  /// it has.
  base::expected<bool> install(policy::generator& engine);

 private:
  weight_receiver(weight_source from, policy::transfer_plan plan, device_share share, news told);
  void run();
  base::status receive_all();
  std::optional<policy::parameter_arena> wait_for_room();
  [[nodiscard]] std::optional<weights_version> arrived() const;

  const weight_source from_;
  const policy::transfer_plan plan_;
  device_share share_;
  const news told_;
  std::optional<weights_ready> announced_;  ///< of the calling thread
  link_end end_;
  mutable std::mutex mutex_;
  std::condition_variable free_;
  std::optional<policy::parameter_arena> room_;
  std::optional<weights_version> arrived_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace quern::actors
