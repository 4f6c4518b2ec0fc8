// Tokens, stops, lengths and the words of a slot.
#include "policy/engine/paged_requests.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include "base/random.hpp"
#include "policy/device/kernels.h"

namespace quern::policy {
namespace {

std::int32_t low_half(std::uint64_t x) {
  return std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(x));
}
std::int32_t high_half(std::uint64_t x) {
  return std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(x >> 32));
}

}  // namespace

std::vector<std::vector<scheduled_sequence>> paged_requests::add(
    std::span<const generation_request> requests) {
  std::vector<std::vector<scheduled_sequence>> groups;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const generation_request& r = requests[i];
    if (i == 0 || requests[i - 1].prompt != r.prompt ||
        groups.back().size() == static_cast<std::size_t>(slots_))
      groups.emplace_back();
    paged_sequence s;
    s.request = r;
    s.tokens = r.prompt;
    s.stops = r.stop_ids;
    if (!r.ignore_eos) s.stops.insert(s.stops.end(), eos_tokens_.begin(), eos_tokens_.end());
    const auto prompt = static_cast<std::int32_t>(r.prompt.size());
    s.limit = std::min(r.max_tokens, capacity_ - prompt);
    groups.back().push_back({++last_serial_, prompt, std::int64_t{prompt} + s.limit});
    serials_[r.id] = last_serial_;
    sequences_[last_serial_] = std::move(s);
  }
  return groups;
}

std::int32_t paged_requests::given_at(std::uint64_t serial, std::int64_t position) const {
  const generation_request& r = sequences_.at(serial).request;
  return r.given.empty() ? -1 : r.given.at(static_cast<std::size_t>(position) - r.prompt.size());
}

std::optional<std::uint64_t> paged_requests::serial_of(std::uint64_t id) const {
  const auto found = serials_.find(id);
  if (found == serials_.end()) return {};
  return found->second;
}

bool paged_requests::end(std::uint64_t serial, finish_reason reason) {
  const auto found = sequences_.find(serial);
  if (found == sequences_.end()) return false;
  found->second.result.id = found->second.request.id;
  found->second.result.reason = reason;
  serials_.erase(found->second.request.id);
  ended_.push_back(std::move(found->second.result));
  sequences_.erase(found);
  return true;
}

std::optional<finish_reason> paged_requests::ends(const paged_sequence& s) const {
  if (std::find(s.stops.begin(), s.stops.end(), s.tokens.back()) != s.stops.end())
    return finish_reason::stop;
  if (static_cast<std::int32_t>(s.result.tokens.size()) >= s.limit) return finish_reason::length;
  return {};
}

bool paged_requests::take(std::uint64_t serial, const std::int32_t* sampled,
                          const version_segment& made_by) {
  const auto found = sequences_.find(serial);
  if (found == sequences_.end()) return false;
  paged_sequence& s = found->second;
  const std::int32_t flags = sampled[3];
  if ((flags & 1) == 0)
    throw std::runtime_error(
        fmt::format("request {}: its slot is not active on the device after {} tokens",
                    s.request.id, s.result.tokens.size()));
  s.tokens.push_back(sampled[0]);
  s.result.tokens.push_back(sampled[0]);
  s.result.log_probs.push_back(std::bit_cast<float>(sampled[1]));
  s.result.raw_log_probs.push_back(std::bit_cast<float>(sampled[2]));
  if (s.result.segments.empty() || s.result.segments.back().version != made_by.version ||
      s.result.segments.back().weights != made_by.weights)
    s.result.segments.push_back(
        {static_cast<std::int32_t>(s.result.tokens.size()) - 1, made_by.version, made_by.weights});
  ++sampled_tokens_;
  if (const auto reason = ends(s)) return end(serial, *reason);
  if (flags != 1)
    throw std::runtime_error(
        fmt::format("request {}: the device ended it with flags {} after {} tokens of {}",
                    s.request.id, flags, s.result.tokens.size(), s.limit));
  return false;
}

void paged_requests::add_state(std::uint64_t serial, std::int32_t base, std::int64_t position,
                               std::vector<std::int32_t>& edits) const {
  const paged_sequence& s = sequences_.at(serial);
  const generation_request& r = s.request;
  const auto set = [&](std::int32_t word, std::int32_t value) {
    edits.push_back(base + word);
    edits.push_back(value);
  };
  const auto where = base::random_address::of(r.seed, "policy/sample", {r.id});
  // The host looks at all of them; what the device does not know costs a row of one more step.
  const auto stops = std::min<std::size_t>(s.stops.size(), quern_most_stops);
  set(quern_slot_active, 1);
  set(quern_slot_position, static_cast<std::int32_t>(position));
  set(quern_slot_index, static_cast<std::int32_t>(s.result.tokens.size()));
  set(quern_slot_limit, s.limit);
  set(quern_slot_greedy, r.greedy ? 1 : 0);
  set(quern_slot_inverse_temperature,
      std::bit_cast<std::int32_t>(static_cast<float>(1 / r.temperature)));
  set(quern_slot_stops, static_cast<std::int32_t>(stops));
  set(quern_slot_key_low, low_half(where.key));
  set(quern_slot_key_high, high_half(where.key));
  set(quern_slot_stream_low, low_half(where.stream));
  set(quern_slot_stream_high, high_half(where.stream));
  for (std::size_t i = 0; i < stops; ++i)
    set(quern_slot_first_stop + static_cast<std::int32_t>(i), s.stops[i]);
}

}  // namespace quern::policy
