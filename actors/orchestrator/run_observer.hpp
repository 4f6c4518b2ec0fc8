// Who is told what a run does while it goes: the monitor of a real run, nobody in a simulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "actors/decide/batch_shape.hpp"
#include "actors/decide/generator_work.hpp"
#include "actors/decide/queue_depths.hpp"
#include "actors/decide/success_watch.hpp"
#include "actors/messages.hpp"

namespace quern::actors {

class orchestrator;

/// A step that was made.
struct finished_step {
  weights_version version = 0;  ///< that it made
  incarnation_id incarnation = 0;
  std::size_t in_flight = 0;                  ///< samples, those of the step among them
  std::map<std::int64_t, std::int64_t> ages;  ///< its samples by steps behind
  step_results results;
  batch_shape form;
  queue_depths queues;
  std::string learner;  ///< the learner's metrics, a JSON object
};

/// Of the batch under way in `memory`, which `step` has answered and `memory` does not know of yet.
finished_step finished_step_of(const orchestrator& memory, const step_done& step);

/// Every call does nothing here. Called by `run_head`, on its thread.
class run_observer {
 public:
  virtual ~run_observer() = default;
  /// What a generator did since it told last.
  virtual void generated(const generator_work& /*news*/) {}
  virtual void stepped(const finished_step& /*step*/) {}
  /// A batch was dropped since its gradient was not finite.
  virtual void left_out() {}
  /// Once each look interval.
  virtual void look() {}
  /// After each round of orders: `memory` has what was judged and dropped since the last call.
  virtual void take_news(orchestrator& /*memory*/) {}
};

}  // namespace quern::actors
