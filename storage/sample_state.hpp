// The states of a sample and the steps between them: the law that the ledger enforces.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace quern::storage {

/// `issued > generated > evaluated > admitted > consumed > trained`, or `dropped`. Every sample is
/// in exactly one of them, from the moment its group is issued.
enum class sample_state : std::uint8_t {
  issued,     ///< its prompt is fixed; tokens are asked for
  generated,  ///< tokens are stored; a verdict is asked for
  evaluated,  ///< one verdict counts
  admitted,   ///< rewarded; waits for a gradient step
  consumed,   ///< part of a gradient step that is in memory only
  trained,    ///< a durable checkpoint holds that step
  dropped     ///< given up, with a reason
};

inline constexpr std::array<sample_state, 7> all_sample_states = {
    sample_state::issued,   sample_state::generated, sample_state::evaluated,
    sample_state::admitted, sample_state::consumed,  sample_state::trained,
    sample_state::dropped};

/// How a state may be left for another one.
enum class step_kind : std::uint8_t {
  illegal,
  forward,  ///< at any time
  backward  ///< only in the transaction that opens an incarnation
};

step_kind step_between(sample_state from, sample_state to);

/// Not yet trained and not dropped.
constexpr bool is_live(sample_state state) {
  return state != sample_state::trained && state != sample_state::dropped;
}

std::string_view to_string(sample_state state);
base::expected<sample_state> parse_sample_state(std::string_view text);

/// Samples by state, and how many were ever issued, counted independently (from the events).
struct state_counts {
  std::int64_t issued_ever = 0;
  std::array<std::int64_t, all_sample_states.size()> by_state{};

  [[nodiscard]] std::int64_t of(sample_state state) const {
    return by_state[static_cast<std::size_t>(state)];
  }
  [[nodiscard]] std::int64_t in_flight() const;
  /// issued = trained + dropped + the five live states.
  [[nodiscard]] bool law_holds() const;
};

}  // namespace quern::storage
