// A generator that was stopped, as the sender of weights sees it.
#pragma once

#include <memory>
#include <string>

#include "actors/workers/link_end.hpp"
#include "base/clock.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/weight_link.hpp"
#include "support/test.hpp"

namespace quern::test {

/// An end that asks for a version and then takes nothing: a generator that was stopped.
class stopped_pupil {
 public:
  stopped_pupil(const std::string& address, const policy::parameter_arena& like) {
    const auto plain = policy::make_catalogue(like.config, policy::weight_dtype::f32).value();
    const policy::transfer_plan plan = policy::make_plan(plain, plain).value();
    link_ = end_.open({address, 1, 2, {}, "127.0.0.1"}, at::kCPU, 60'000'000'000).value();
    REQUIRE(link_->agree(plan, at::kFloat));
    REQUIRE(link_->warm_up(0));
  }
  ~stopped_pupil() { end_.end(); }
  /// What the sender has begun to send.
  actors::weights_version ask() { return link_->ask().value(); }
  /// The same where the other end may go.
  void try_ask() { (void)link_->ask(); }

 private:
  actors::link_end end_;
  std::unique_ptr<policy::weight_link> link_;
};

}  // namespace quern::test
