// Rolling mean and deviation of rewards.
#include "actors/decide/reward_state.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quern::actors {

using base::errc;
using base::fail;

namespace {

constexpr double unit = 1e9;
constexpr double largest_reward = 1e6;
constexpr double least_sigma = 1e-6;

}  // namespace

base::status reward_state::observe(std::int64_t sequence, double reward) {
  if (sequence <= sequence_) {
    return fail(errc::invalid_argument,
                "reward of ledger event {} after that of event {}; rewards follow ledger order",
                sequence, sequence_);
  }
  if (!std::isfinite(reward) || std::abs(reward) > largest_reward) {
    return fail(errc::invalid_argument, "reward {} of ledger event {}; allowed are -1e6 to 1e6",
                reward, sequence);
  }
  sequence_ = sequence;
  recent_.push_back(std::llround(reward * unit));
  while (static_cast<std::int64_t>(recent_.size()) > options_.window)
    recent_.pop_front();
  if (++seen_ % options_.update_every == 0) update();
  return {};
}

void reward_state::update() {
  // Integer sums do not depend on the order of addition, nor on what left the window before.
  __int128 sum = 0;
  for (const auto value : recent_)
    sum += value;
  const auto count = static_cast<double>(recent_.size());
  mu_ = static_cast<double>(sum) / count / unit;
  double squares = 0;
  for (const auto value : recent_) {
    const double apart = static_cast<double>(value) / unit - mu_;
    squares += apart * apart;
  }
  const double sigma = std::sqrt(squares / count);
  sigma_ = sigma < least_sigma ? 1.0 : sigma;
}

double reward_state::smooth(double reward) const {
  return std::clamp((reward - mu_) / sigma_, -options_.clip, options_.clip);
}

base::json reward_state::to_json() const {
  return {{"quern_reward_state", 1},
          {"sequence", sequence_},
          {"seen", seen_},
          {"mu_bits", std::bit_cast<std::uint64_t>(mu_)},
          {"sigma_bits", std::bit_cast<std::uint64_t>(sigma_)},
          {"recent_e9", recent_}};
}

base::expected<reward_state> reward_state::from_json(const base::json& value,
                                                     smoothing_options options) {
  QUERN_TRY(const auto version, base::get<std::int64_t>(value, "quern_reward_state"));
  if (version != 1) {
    return fail(errc::version, "the reward state has version {}, this build knows 1", version);
  }
  reward_state state(options);
  QUERN_TRY(state.sequence_, base::get<std::int64_t>(value, "sequence"));
  QUERN_TRY(state.seen_, base::get<std::int64_t>(value, "seen"));
  QUERN_TRY(const auto mu, base::get<std::uint64_t>(value, "mu_bits"));
  QUERN_TRY(const auto sigma, base::get<std::uint64_t>(value, "sigma_bits"));
  state.mu_ = std::bit_cast<double>(mu);
  state.sigma_ = std::bit_cast<double>(sigma);
  if (!std::isfinite(state.mu_) || !(state.sigma_ > 0) || !std::isfinite(state.sigma_)) {
    return fail(errc::corrupt, "the reward state has mean {} and deviation {}", state.mu_,
                state.sigma_);
  }
  const auto recent = value.find("recent_e9");
  if (recent == value.end() || !recent->is_array()) {
    return fail(errc::corrupt, "the reward state has no list 'recent_e9'");
  }
  for (const auto& entry : *recent) {
    if (!entry.is_number_integer()) {
      return fail(errc::corrupt, "'recent_e9' of the reward state holds {}", base::dump(entry));
    }
    state.recent_.push_back(entry.get<std::int64_t>());
  }
  return state;
}

}  // namespace quern::actors
