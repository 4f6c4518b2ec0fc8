#include "storage/sample_state.hpp"

#include <numeric>

namespace quern::storage {

step_kind step_between(sample_state from, sample_state to) {
  using enum sample_state;
  if (to == dropped) {
    // A consumed sample has shaped the weights: calling it dropped would be a lie.
    return from < consumed ? step_kind::forward : step_kind::illegal;
  }
  if (from == dropped) return step_kind::illegal;
  if (static_cast<int>(to) == static_cast<int>(from) + 1) return step_kind::forward;
  if (to == issued && from != issued) return step_kind::backward;
  if (to == admitted && (from == consumed || from == trained)) return step_kind::backward;
  return step_kind::illegal;
}

std::string_view to_string(sample_state state) {
  switch (state) {
    case sample_state::issued:
      return "issued";
    case sample_state::generated:
      return "generated";
    case sample_state::evaluated:
      return "evaluated";
    case sample_state::admitted:
      return "admitted";
    case sample_state::consumed:
      return "consumed";
    case sample_state::trained:
      return "trained";
    case sample_state::dropped:
      return "dropped";
  }
  return "?";
}

base::expected<sample_state> parse_sample_state(std::string_view text) {
  for (const sample_state state : all_sample_states) {
    if (to_string(state) == text) return state;
  }
  return base::fail(base::errc::corrupt, "'{}' is not a state of a sample", text);
}

std::int64_t state_counts::in_flight() const {
  std::int64_t count = 0;
  for (const sample_state state : all_sample_states) {
    if (is_live(state)) count += of(state);
  }
  return count;
}

bool state_counts::law_holds() const {
  return issued_ever == std::accumulate(by_state.begin(), by_state.end(), std::int64_t{0});
}

}  // namespace quern::storage
