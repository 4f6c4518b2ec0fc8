// The requests of a paged engine: their tokens as far as they are known, what the device has to
// know of them, and when they end. Knows nothing of pages, passes or devices.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/engine/generation_schedule.hpp"
#include "policy/engine/generator.hpp"

namespace quern::policy {

struct paged_sequence {
  generation_request request;
  std::vector<std::int32_t> tokens;  ///< prompt and what was read of the sampled ones
  std::vector<std::int32_t> stops;
  generation_result result;
  std::int32_t limit = 0;  ///< sampled tokens at which it is full
};

class paged_requests {
 public:
  /// `slots`: the largest group; `eos_tokens`: the model's.
  paged_requests(std::int32_t slots, std::int32_t capacity, std::vector<std::int32_t> eos_tokens)
      : slots_(slots), capacity_(capacity), eos_tokens_(std::move(eos_tokens)) {}

  /// Takes valid requests in; neighbours with equal prompts are a group. Every sequence gets a
  /// serial number, from 1, that is never used again.
  std::vector<std::vector<scheduled_sequence>> add(std::span<const generation_request> requests);
  std::optional<std::uint64_t> serial_of(std::uint64_t id) const;
  const paged_sequence& at(std::uint64_t serial) const { return sequences_.at(serial); }
  std::size_t size() const { return sequences_.size(); }
  /// The token that a request gives for a position of its sequence; -1: it is to be sampled.
  std::int32_t given_at(std::uint64_t serial, std::int64_t position) const;

  /// Adds a token that the device sampled (the words of quern_sampled) under a version; true: that
  /// ended the sequence. A serial that has ended before is passed over. Throws std::runtime_error
  /// where device and host disagree on what has ended.
  bool take(std::uint64_t serial, const std::int32_t* sampled, const version_segment& made_by);
  /// Ends it with what it has; false: there is none.
  bool end(std::uint64_t serial, finish_reason reason);
  /// Those that have ended since the last call.
  std::vector<generation_result> take_ended() { return std::exchange(ended_, {}); }
  bool has_ended() const { return !ended_.empty(); }
  std::int64_t sampled_tokens() const { return sampled_tokens_; }

  /// Adds to `edits` (pairs of place and value) what sampling needs of a sequence whose token at
  /// `position` is the last that is known; `base`: where its slot's words begin.
  void add_state(std::uint64_t serial, std::int32_t base, std::int64_t position,
                 std::vector<std::int32_t>& edits) const;

 private:
  std::optional<finish_reason> ends(const paged_sequence& s) const;

  std::int32_t slots_, capacity_;
  std::vector<std::int32_t> eos_tokens_;
  std::unordered_map<std::uint64_t, paged_sequence> sequences_;  ///< by serial
  std::unordered_map<std::uint64_t, std::uint64_t> serials_;     ///< by request id
  std::vector<generation_result> ended_;
  std::uint64_t last_serial_ = 0;
  std::int64_t sampled_tokens_ = 0;
};

}  // namespace quern::policy
