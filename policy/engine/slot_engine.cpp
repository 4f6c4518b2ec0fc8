// The slot method: continuous batching over fixed-size passes, on whatever LibTorch runs.
#include <algorithm>
#include <deque>
#include <list>
#include <optional>
#include <unordered_set>
#include <utility>

#include "policy/engine/cached.hpp"
#include "policy/engine/generation_engine.hpp"
#include "policy/engine/sampler.hpp"

namespace quern::policy {
namespace {

/// The whole state of the slot method.
struct slot_state {
  /// One request on its way. `tokens` is the prompt and what was sampled; of these the first
  /// `computed` are in the cache.
  struct sequence {
    generation_request request;
    std::vector<std::int32_t> tokens;
    generation_result result;
    std::int64_t slot = -1;
    std::int64_t computed = 0;
    std::int64_t prompt_slot = 0;  ///< where the first `shared` positions lie
    std::int64_t shared = 0;
    std::uint64_t group = 0;
    bool waits = false;  ///< for its group's prompt, which another member computes
    bool cancelled = false;
  };

  generator_options options;
  parameter_arena active;
  std::int64_t version = 0;
  base::hash128 hash;
  std::optional<cached_decoder> model;
  generator_counters counters;

  std::deque<std::vector<sequence>> waiting;  ///< groups, in order of submission
  std::list<sequence> running;                ///< the next to be served in front
  std::vector<std::int64_t> free_slots;
  std::vector<std::int32_t>
      prompt_readers;      ///< of each slot: sequences that read their prompt in it
  std::vector<bool> left;  ///< of each slot: its owner has ended, readers keep it
  std::unordered_set<std::uint64_t> ids;
  std::uint64_t next_group = 0;
  std::vector<generation_result> ended;

  void admit();
  void sweep_cancelled();
  void hand_over(sequence& leader);
  void share_prompt(const sequence& leader, sequence& member);
  void release(const sequence& s);
  void finish(std::list<sequence>::iterator which, finish_reason reason);
  void forget_cache();
  void sample(sequence& s, std::span<const float> logits);
  std::optional<finish_reason> ends(const sequence& s) const;
};

void slot_state::admit() {
  while (!waiting.empty() && waiting.front().size() <= free_slots.size()) {
    for (sequence& s : waiting.front()) {
      s.slot = free_slots.back();
      free_slots.pop_back();
      running.push_back(std::move(s));
    }
    waiting.pop_front();
  }
}

/// The leader of a waiting group goes: another member takes its slot and what is computed in it.
void slot_state::hand_over(sequence& leader) {
  const auto heir = std::find_if(running.begin(), running.end(), [&](const sequence& s) {
    return s.group == leader.group && s.waits;
  });
  if (heir == running.end()) return;
  std::swap(heir->slot, leader.slot);
  heir->computed = leader.computed;
  heir->waits = false;
}

/// Everything is computed again from its tokens.
void slot_state::forget_cache() {
  for (sequence& s : running)
    s.computed = s.shared = s.prompt_slot = 0;
  prompt_readers.assign(prompt_readers.size(), 0);
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i]) free_slots.push_back(static_cast<std::int64_t>(i));
  left.assign(left.size(), false);
}

/// Whole blocks of the prompt are read where they are; what is left of the last block is copied.
void slot_state::share_prompt(const sequence& leader, sequence& member) {
  member.computed = leader.computed;
  member.shared = leader.computed / cache_block * cache_block;
  member.prompt_slot = leader.slot;
  member.waits = false;
  if (member.shared > 0) ++prompt_readers[static_cast<std::size_t>(leader.slot)];
  if (member.shared < leader.computed)
    model->copy_slot(leader.slot, member.slot, member.shared, leader.computed);
}

void slot_state::release(const sequence& s) {
  const auto own = static_cast<std::size_t>(s.slot), host = static_cast<std::size_t>(s.prompt_slot);
  if (s.shared > 0 && --prompt_readers[host] == 0 && left[host]) {
    left[host] = false;
    free_slots.push_back(s.prompt_slot);
  }
  if (prompt_readers[own] > 0)
    left[own] = true;
  else
    free_slots.push_back(s.slot);
}

void slot_state::finish(std::list<sequence>::iterator which, finish_reason reason) {
  which->result.id = which->request.id;
  which->result.reason = reason;
  ids.erase(which->request.id);
  release(*which);
  ended.push_back(std::move(which->result));
  running.erase(which);
}

void slot_state::sweep_cancelled() {
  for (auto group = waiting.begin(); group != waiting.end();) {
    bool leader_gone = false;
    std::erase_if(*group, [&](sequence& s) {
      if (!s.cancelled) return false;
      leader_gone |= !s.waits;
      ids.erase(s.request.id);
      s.result.id = s.request.id;
      s.result.reason = finish_reason::cancelled;
      ended.push_back(std::move(s.result));
      return true;
    });
    if (leader_gone && !group->empty()) group->front().waits = false;
    group = group->empty() ? waiting.erase(group) : std::next(group);
  }
  for (auto s = running.begin(); s != running.end();) {
    const auto here = s++;
    if (!here->cancelled) continue;
    // Who waits for the prompt has nothing of it to hand over.
    if (!here->waits) hand_over(*here);
    finish(here, finish_reason::cancelled);
  }
}

void slot_state::sample(sequence& s, std::span<const float> logits) {
  const generation_request& r = s.request;
  const std::uint64_t index = s.result.tokens.size();
  const sampled_token t =
      !r.given.empty() ? given_token(logits, r.greedy ? 1 : r.temperature, r.given[index])
      : r.greedy       ? greedy_token(logits)
                       : sample_token(logits, r.temperature, sampling_uniform(r.seed, r.id, index));
  s.tokens.push_back(t.token);
  s.result.tokens.push_back(t.token);
  s.result.log_probs.push_back(t.log_prob);
  s.result.raw_log_probs.push_back(t.raw_log_prob);
  if (s.result.segments.empty() || s.result.segments.back().version != version ||
      s.result.segments.back().weights != hash)
    s.result.segments.push_back({static_cast<std::int32_t>(index), version, hash});
  ++counters.sampled_tokens;
}

std::optional<finish_reason> slot_state::ends(const sequence& s) const {
  const auto has = [&](const std::vector<std::int32_t>& ids_) {
    return std::find(ids_.begin(), ids_.end(), s.tokens.back()) != ids_.end();
  };
  if (has(s.request.stop_ids) || (!s.request.ignore_eos && has(active.config.eos_tokens)))
    return finish_reason::stop;
  if (static_cast<std::int32_t>(s.result.tokens.size()) >= s.request.max_tokens)
    return finish_reason::length;
  if (static_cast<std::int64_t>(s.tokens.size()) >= options.capacity) return finish_reason::length;
  return {};
}

class slot_engine final : public generation_engine {
 public:
  explicit slot_engine(slot_state parts) : state_(std::move(parts)) {}
  void submit(std::span<const generation_request> requests) override;
  bool cancel(std::uint64_t id) override;
  std::vector<generation_result> step() override;
  bool in_flight(std::uint64_t id) const override { return state_.ids.contains(id); }
  std::size_t in_flight() const override { return state_.ids.size(); }
  bool idle() const override { return state_.ids.empty() && state_.ended.empty(); }
  base::status install(parameter_arena& staged, std::int64_t version,
                       const base::hash128& hash) override {
    std::swap(state_.active, staged);
    state_.version = version;
    state_.hash = hash;
    if (state_.options.exact) state_.forget_cache();
    return {};
  }
  const generator_counters& counters() const override { return state_.counters; }

 private:
  slot_state state_;
};

void slot_engine::submit(std::span<const generation_request> requests) {
  slot_state& s = state_;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const generation_request& r = requests[i];
    const bool joins = i > 0 && requests[i - 1].prompt == r.prompt &&
                       s.waiting.back().size() < static_cast<std::size_t>(s.options.slots);
    if (!joins) {
      s.waiting.emplace_back();
      ++s.next_group;
    }
    slot_state::sequence q;
    q.request = r;
    q.tokens = r.prompt;
    q.group = s.next_group;
    q.waits = joins;
    s.waiting.back().push_back(std::move(q));
    s.ids.insert(r.id);
  }
}

bool slot_engine::cancel(std::uint64_t id) {
  for (slot_state::sequence& s : state_.running)
    if (s.request.id == id) return s.cancelled = true;
  for (auto& group : state_.waiting)
    for (slot_state::sequence& s : group)
      if (s.request.id == id) return s.cancelled = true;
  return false;
}

std::vector<generation_result> slot_engine::step() {
  slot_state& s = state_;
  s.sweep_cancelled();
  s.admit();
  struct due {
    std::list<slot_state::sequence>::iterator who;
    std::size_t row;
  };
  std::vector<cached_row> rows;
  std::vector<due> sampling;
  const auto limit = static_cast<std::size_t>(s.options.rows);
  std::vector<std::list<slot_state::sequence>::iterator> served;
  for (auto q = s.running.begin(); q != s.running.end() && rows.size() < limit; ++q) {
    if (q->waits) continue;
    served.push_back(q);
    const auto left = q->tokens.size() - static_cast<std::size_t>(q->computed);
    const std::size_t take = std::min(left, limit - rows.size());
    for (std::size_t i = 0; i < take; ++i, ++q->computed)
      rows.push_back({q->slot, q->computed, q->tokens[static_cast<std::size_t>(q->computed)],
                      q->prompt_slot, q->shared});
    if (take == left) sampling.push_back({q, rows.size() - 1});
    if (left > 1) s.counters.prompt_rows += static_cast<std::int64_t>(take);
  }
  if (rows.empty()) return std::exchange(s.ended, {});
  const at::Tensor logits = s.model->pass(s.active.weights, rows, !sampling.empty());
  ++s.counters.forward_passes;
  s.counters.cache_held += s.options.slots - std::ssize(s.free_slots);
  s.counters.cache_room += s.options.slots;
  s.counters.padded_rows += static_cast<std::int64_t>(limit - rows.size());
  for (const auto& q : served)  // to the back: everybody is served in turn
    s.running.splice(s.running.end(), s.running, q);
  if (sampling.empty()) return std::exchange(s.ended, {});

  const at::Tensor host = logits.to(at::kCPU, at::kFloat).contiguous();
  const auto width = static_cast<std::size_t>(host.size(1));
  const std::size_t valid =
      s.options.valid_tokens > 0 ? static_cast<std::size_t>(s.options.valid_tokens) : width;
  for (const due& d : sampling) {
    const std::span<const float> row(host.const_data_ptr<float>() + d.row * width, valid);
    if (d.who->result.tokens
            .empty()) {  // the prompt is complete: its group starts from the same row
      for (slot_state::sequence& member : s.running)
        if (member.group == d.who->group && member.waits) {
          s.share_prompt(*d.who, member);
          s.sample(member, row);
        }
    }
    s.sample(*d.who, row);
  }
  for (auto q = s.running.begin(); q != s.running.end();) {
    const auto here = q++;
    if (here->result.tokens.empty()) continue;
    if (const auto reason = s.ends(*here)) s.finish(here, *reason);
  }
  return std::exchange(s.ended, {});
}

}  // namespace

base::expected<std::unique_ptr<generation_engine>> make_slot_engine(
    const parameter_arena& initial, std::int64_t version, const base::hash128& hash,
    const generator_options& options, const parallel_context& context) {
  slot_state s;
  s.options = options;
  QUERN_TRY(auto model,
            cached_decoder::make(initial, options.rows, options.slots, options.capacity, context));
  s.model.emplace(std::move(model));
  s.active = initial.like();
  s.active.flat.copy_(initial.flat);
  s.version = version;
  s.hash = hash;
  s.prompt_readers.assign(static_cast<std::size_t>(options.slots), 0);
  s.left.assign(static_cast<std::size_t>(options.slots), false);
  for (std::int64_t i = options.slots; i-- > 0;)
    s.free_slots.push_back(i);
  return std::unique_ptr<generation_engine>(std::make_unique<slot_engine>(std::move(s)));
}

}  // namespace quern::policy
