// Checks training sequences and packs them into micro-batches.
#include "policy/engine/sequence.hpp"

#include <algorithm>

#include <ATen/ops/tensor.h>

namespace quern::policy {
namespace {

using base::errc;
using base::fail;

/// Where a sequence's trained part lies: tokens [0, first) are prompt, [first, last] holds every
/// trained token.
struct extent {
  std::int64_t first = 0, last = 0;
  bool trained() const { return last > 0; }
};

extent extent_of(const training_sequence& s) {
  const auto is_trained = [](std::uint8_t m) { return m != 0; };
  const auto first = std::find_if(s.loss_mask.begin(), s.loss_mask.end(), is_trained);
  if (first == s.loss_mask.end()) return {};
  const auto last = std::find_if(s.loss_mask.rbegin(), s.loss_mask.rend(), is_trained);
  return {first - s.loss_mask.begin(), s.loss_mask.rend() - last - 1};
}

bool same_prompt(const training_sequence& a, const extent& ea, const training_sequence& b,
                 const extent& eb) {
  return ea.trained() && eb.trained() && ea.first == eb.first &&
         std::equal(a.tokens.begin(), a.tokens.begin() + ea.first, b.tokens.begin());
}

template <class T>
base::status same_length(std::string_view name, const std::vector<T>& values, std::size_t length,
                         std::size_t index, bool optional) {
  if ((optional && values.empty()) || values.size() == length) return {};
  return fail(errc::invalid_argument, "sequence {}: {} has {} entries for {} tokens", index, name,
              values.size(), length);
}

/// One micro-batch being filled.
class builder {
 public:
  builder(const model_config& config, std::int64_t pad) : config_(&config), pad_(pad) {}

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens_.size()); }

  /// Rows for tokens [from, to) of `s`, after `prefix`. Returns the rows without padding.
  segment add(const training_sequence& s, std::int64_t from, std::int64_t to,
              const segment& prefix) {
    segment result{rows(), rows() + to - from, prefix.begin, prefix.end};
    const std::int64_t padded = (to - from + pad_ - 1) / pad_ * pad_;
    for (std::int64_t t = from; t < from + padded; ++t) {
      tokens_.push_back(t < to ? s.tokens[static_cast<std::size_t>(t)] : 0);
      positions_.push_back(std::min(t, config_->max_positions - 1));
    }
    segments_.push_back({result.begin, result.begin + padded, prefix.begin, prefix.end});
    return result;
  }

  void predict(const training_sequence& s, std::int32_t index, const extent& e,
               const segment& prompt, const segment& own) {
    for (std::int64_t t = e.first; t <= e.last; ++t) {
      if (s.loss_mask[static_cast<std::size_t>(t)] == 0) continue;
      const std::int64_t source = t - 1;  // the row whose next token is t
      const std::int64_t prompt_rows = prompt.end - prompt.begin;
      const std::int64_t row =
          source < prompt_rows ? prompt.begin + source : own.begin + source - prompt_rows;
      predictions_.push_back({row, index, static_cast<std::int32_t>(t)});
    }
  }

  base::expected<micro_batch> finish(at::Device device) {
    micro_batch batch;
    QUERN_TRY(batch.rows, make_rows(*config_, std::move(tokens_), std::move(positions_),
                                    std::move(segments_), device));
    batch.predictions = std::move(predictions_);
    return batch;
  }

 private:
  const model_config* config_;
  std::int64_t pad_;
  std::vector<std::int64_t> tokens_, positions_;
  std::vector<segment> segments_;
  std::vector<prediction> predictions_;
};

}  // namespace

base::expected<packed_rows> make_rows(const model_config& config, std::vector<std::int64_t> tokens,
                                      std::vector<std::int64_t> positions,
                                      std::vector<segment> segments, at::Device device) {
  if (tokens.empty() || tokens.size() != positions.size())
    return fail(errc::invalid_argument,
                "{} tokens and {} positions: both must be equal and above 0", tokens.size(),
                positions.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= config.vocab_size)
      return fail(errc::invalid_argument, "token {} of row {} is outside the vocabulary of {}",
                  tokens[i], i, config.vocab_size);
    if (positions[i] < 0 || positions[i] >= config.max_positions)
      return fail(errc::invalid_argument,
                  "position {} of row {} is outside the model's {} positions", positions[i], i,
                  config.max_positions);
  }
  std::int64_t covered = 0;
  for (const segment& s : segments) {
    const bool no_prefix = s.prefix_begin == s.prefix_end;
    if (s.begin != covered || s.end <= s.begin ||
        (!no_prefix &&
         (s.prefix_begin < 0 || s.prefix_end < s.prefix_begin || s.prefix_end > s.begin)))
      return fail(errc::internal, "segment [{}, {}) with prefix [{}, {}) does not follow row {}",
                  s.begin, s.end, s.prefix_begin, s.prefix_end, covered);
    covered = s.end;
  }
  if (covered != static_cast<std::int64_t>(tokens.size()))
    return fail(errc::internal, "segments cover {} of {} rows", covered, tokens.size());
  packed_rows rows;
  rows.tokens = at::tensor(tokens, at::kLong).to(device);
  rows.positions = at::tensor(positions, at::kLong).to(device);
  rows.segments = std::move(segments);
  if (!device.is_cuda()) return rows;
  const segment_keys keys = keys_of(rows.segments);
  rows.begin_rows = at::tensor(keys.begin_rows, at::kInt).to(device);
  rows.begin_keys = at::tensor(keys.begin_keys, at::kInt).to(device);
  if (keys.shared) rows.key_rows = at::tensor(keys.rows, at::kLong).to(device);
  rows.most_rows = keys.most_rows;
  rows.most_keys = keys.most_keys;
  return rows;
}

segment_keys keys_of(std::span<const segment> segments) {
  segment_keys keys;
  for (const segment& s : segments) {
    for (std::int64_t r = s.prefix_begin; r < s.prefix_end; ++r)
      keys.rows.push_back(r);
    for (std::int64_t r = s.begin; r < s.end; ++r)
      keys.rows.push_back(r);
    keys.shared = keys.shared || s.prefix_end > s.prefix_begin;
    keys.most_rows = std::max(keys.most_rows, s.end - s.begin);
    keys.most_keys = std::max(keys.most_keys, s.end - s.begin + s.prefix_end - s.prefix_begin);
    keys.begin_rows.push_back(static_cast<std::int32_t>(s.end));
    keys.begin_keys.push_back(static_cast<std::int32_t>(keys.rows.size()));
  }
  return keys;
}

base::status check(const model_config& config, std::span<const training_sequence> batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const training_sequence& s = batch[i];
    const std::size_t n = s.tokens.size();
    QUERN_CHECK(same_length("loss_mask", s.loss_mask, n, i, false));
    QUERN_CHECK(same_length("behaviour_log_probs", s.behaviour_log_probs, n, i, true));
    QUERN_CHECK(same_length("proximal_log_probs", s.proximal_log_probs, n, i, true));
    QUERN_CHECK(same_length("reference_log_probs", s.reference_log_probs, n, i, true));
    QUERN_CHECK(same_length("versions", s.versions, n, i, true));
    if (n > 0 && s.loss_mask[0] != 0)
      return fail(errc::invalid_argument,
                  "sequence {}: its first token is trained, but nothing predicts it; start with a "
                  "prompt or BOS token",
                  i);
    if (static_cast<std::int64_t>(n) > config.max_positions)
      return fail(errc::invalid_argument,
                  "sequence {} has {} tokens, more than the model's {} positions", i, n,
                  config.max_positions);
    for (std::int32_t token : s.tokens)
      if (token < 0 || token >= config.vocab_size)
        return fail(errc::invalid_argument, "sequence {}: token {} is outside the vocabulary of {}",
                    i, token, config.vocab_size);
    if (!(s.temperature > 0))
      return fail(errc::invalid_argument, "sequence {}: temperature is {}, but must be above 0", i,
                  s.temperature);
    if (!(s.weight >= 0) || !(s.advantage == s.advantage))
      return fail(errc::invalid_argument, "sequence {}: weight {} or advantage {} is not usable", i,
                  s.weight, s.advantage);
  }
  return {};
}

batch_totals count(std::span<const training_sequence> batch) {
  batch_totals totals;
  for (const training_sequence& s : batch) {
    const auto trained = std::count_if(s.loss_mask.begin(), s.loss_mask.end(),
                                       [](std::uint8_t m) { return m != 0; });
    totals.tokens += static_cast<double>(trained);
    totals.sequences += trained > 0 ? 1 : 0;
  }
  return totals;
}

base::expected<std::vector<micro_batch>> pack(const model_config& config,
                                              std::span<const training_sequence> batch,
                                              const packing& how, at::Device device) {
  if (how.max_rows < 1 || how.pad_segments < 1)
    return fail(errc::invalid_argument,
                "packing with max_rows {} and pad_segments {}: both must be at least 1",
                how.max_rows, how.pad_segments);
  QUERN_CHECK(check(config, batch));
  std::vector<extent> extents;
  for (const training_sequence& s : batch)
    extents.push_back(extent_of(s));

  std::vector<micro_batch> result;
  builder open(config, how.pad_segments);
  segment prompt;                // the shared prompt laid out last in `open`
  std::size_t prompt_owner = 0;  // the sequence that it was taken from
  const auto close = [&]() -> base::status {
    if (open.rows() > 0) {
      QUERN_TRY(micro_batch full, open.finish(device));
      result.push_back(std::move(full));
    }
    open = builder(config, how.pad_segments);
    prompt = {};
    return {};
  };
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const extent e = extents[i];
    if (!e.trained()) continue;
    bool reuse = prompt.end > prompt.begin &&
                 same_prompt(batch[prompt_owner], extents[prompt_owner], batch[i], e);
    const std::int64_t cost = reuse ? e.last - e.first : e.last;
    if (open.rows() > 0 && open.rows() + cost > how.max_rows) {
      QUERN_CHECK(close());
      reuse = false;
    }
    const bool opens = how.share_prompts && !reuse && i + 1 < batch.size() &&
                       same_prompt(batch[i], e, batch[i + 1], extents[i + 1]);
    if (opens) {
      prompt = open.add(batch[i], 0, e.first, {});
      prompt_owner = i;
    } else if (!reuse) {
      prompt = {};
    }
    segment own{open.rows(), open.rows(), 0, 0};
    const std::int64_t from = opens || reuse ? e.first : 0;
    if (e.last > from) own = open.add(batch[i], from, e.last, prompt);
    open.predict(batch[i], static_cast<std::int32_t>(i), e, prompt, own);
  }
  QUERN_CHECK(close());
  return result;
}

}  // namespace quern::policy
