// A generator's end of its link for weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "actors/messages.hpp"
#include "actors/workers/device_share.hpp"
#include "actors/workers/link_end.hpp"
#include "actors/workers/weight_inbox.hpp"
#include "base/status.hpp"
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

class weight_receiver final : public weight_fetcher {
 public:
  /// Opens the link in the background, for as long as the learner takes to come. `share`: the GPU,
  /// where evaluators measure on it. News of a problem: the link is over.
  static base::expected<std::unique_ptr<weight_receiver>> make(weight_source from,
                                                               device_share share, news told);
  /// Ends the link.
  ~weight_receiver() override;

 private:
  weight_receiver(weight_source from, policy::transfer_plan plan, device_share share, news told);
  void run();
  base::status receive_all();

  const weight_source from_;
  const policy::transfer_plan plan_;
  device_share share_;
  const news told_;
  link_end end_;
  std::thread thread_;
};

}  // namespace quern::actors
