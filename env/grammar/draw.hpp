// The endless, addressed supply of compositions: composition k of a seed is a pure function of
// both.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/grammar/composition.hpp"
#include "env/grammar/probe.hpp"

namespace quern::env {

struct draw_limits {
  int min_before =
      1;  ///< element-wise steps before the structural one, or of an element-wise chain
  int max_before = 3;
  int max_after = 2;  ///< element-wise steps after it
  int min_steps = 2;  ///< of all kinds together
  int max_steps = 5;
  /// Least plain_ns (plain_cost.hpp). Below it nearly all time goes to memory: no kernel can be
  /// much faster than another, and the tensors have to be large to be timed at all.
  double least_plain_ns = 0.8;
  /// Families to draw from, each with a weight; empty: the default mix (a third element-wise).
  std::vector<std::pair<std::string, double>> families;
};

/// Refuses limits that contradict each other and unknown families.
base::status validate(const draw_limits& limits);

/// Composition `index` of `seed`: valid, and neither degenerate (an output that hardly varies, an
/// input that hardly matters) nor badly conditioned (see probe.hpp). Different indices may give
/// equal compositions: compare composition_hash. Limits must be valid. Thread-safe.
composition draw_composition(std::uint64_t seed, std::uint64_t index, const draw_limits& limits);
/// The same with its trial, which has no objection.
composition_probe draw_tried(std::uint64_t seed, std::uint64_t index, const draw_limits& limits);

/// The compositions of a seed in order, from index 0 on. A draw takes milliseconds, so several are
/// made at a time, on several threads. One thread at a time may ask.
class tried_draws {
 public:
  /// `threads`: that of whoever asks included, from 1 to 32; where the system makes fewer, fewer
  /// draw. They live while next() runs.
  tried_draws(std::uint64_t seed, draw_limits limits, std::size_t threads);
  /// Its trial has no objection.
  composition_probe next();

 private:
  void draw_more();
  std::uint64_t seed_;
  draw_limits limits_;
  std::size_t threads_;
  /// Draws of the last round.
  std::size_t round_ = 0;
  std::uint64_t drawn_ = 0;
  std::deque<composition_probe> ready_;
};

}  // namespace quern::env
