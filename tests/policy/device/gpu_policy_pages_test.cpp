// Kernels of generation: heads into pages, attention over pages (against the scalar kernel and
// against ATen's flash attention), sampling (against the CPU's sampler).
#include <bit>
#include <cmath>
#include <cstdio>
#include <numeric>

#include <ATen/ops/_flash_attention_forward.h>

#include "base/random.hpp"
#include "policy/device/kernel_pairs.hpp"

using namespace quern;
using namespace quern::policy;
using namespace quern::test;

namespace {

constexpr std::int32_t page_size = 64;

/// Slots of given lengths over pages in no order.
struct paged_rows {
  quern_heads shape;
  at::ScalarType type = at::kBFloat16;
  std::vector<std::int32_t> lengths;  ///< of slot i; 0: an empty slot, whose row is padding

  std::int32_t rows() const { return static_cast<std::int32_t>(lengths.size()); }
  std::int32_t longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
  std::int32_t width() const { return longest() / page_size + 1; }
  std::int32_t splits() const { return longest() / quern_split + 1; }
  std::int32_t pages_of(std::int32_t slot) const {
    return lengths[static_cast<std::size_t>(slot)] / page_size + 1;
  }
  std::int32_t pages() const {
    std::int32_t pages = 0;
    for (std::int32_t slot = 0; slot < rows(); ++slot)
      pages += pages_of(slot);
    return pages;
  }
  /// [rows, width]; 0 behind the pages of a slot.
  std::vector<std::int32_t> tables() const {
    std::vector<std::int32_t> entries(static_cast<std::size_t>(rows() * width()), 0);
    std::int64_t taken = 0;
    const std::int64_t all = pages();
    for (std::int32_t slot = 0; slot < rows(); ++slot)
      for (std::int32_t i = 0; i < pages_of(slot); ++i)  // 7919 is prime: a permutation
        entries[static_cast<std::size_t>(slot * width() + i)] =
            static_cast<std::int32_t>(taken++ * 7919 % all);
    return entries;
  }
};

struct paged_tensors {
  at::Tensor keys, values, tables, slots, positions, items, first, partial, counters, q, out;
  std::int32_t width;
  quern_pages pages() const {
    return {data_of(keys), data_of(values), words_of(tables), page_size, width};
  }
  quern_rows rows() const {
    return {static_cast<std::int32_t>(slots.numel()), words_of(slots), words_of(positions)};
  }
  quern_attention_plan plan() const { return {words_of(items), words_of(first)}; }
  quern_attention_room room() const { return {floats_of(partial), words_of(counters)}; }
};

/// `shift` is added to every row's position: the wrong parameter of the controls.
paged_tensors tensors_of(const kernel_side& s, const paged_rows& p, std::int32_t shift,
                         const std::vector<std::int32_t>& chosen) {
  paged_tensors t;
  t.width = p.width();
  const auto [kv, group, dim] = p.shape;
  t.keys = s.numbers({p.pages(), kv, page_size, dim}, p.type, 1);
  t.values = s.numbers({p.pages(), kv, page_size, dim}, p.type, 2);
  std::vector<std::int32_t> slots, positions;
  for (std::int32_t row : chosen) {
    slots.push_back(row);
    const std::int32_t length = row < 0 ? 0 : p.lengths[static_cast<std::size_t>(row)];
    positions.push_back(length == 0 ? -1 : std::max(0, length - 1 + shift));
  }
  t.tables = s.integers(p.tables()).view({p.rows(), p.width()});
  const auto rows = static_cast<std::int64_t>(chosen.size());
  const at::Tensor given = s.integers(positions), token = s.zeros({rows}, at::kInt),
                   state = s.zeros({p.rows(), quern_slot_words}, at::kInt);
  t.slots = s.integers(slots);
  t.positions = s.zeros({rows}, at::kInt);
  t.items = s.zeros({1 + 2 * rows * (p.splits() + 1)}, at::kInt);
  t.first = s.zeros({rows}, at::kInt);
  t.partial = s.zeros({rows * (p.splits() + 1) * kv * group * (dim + 2)}, at::kFloat);
  t.counters = s.zeros({rows * kv}, at::kInt);
  t.q = s.numbers({p.rows(), kv * group, dim}, p.type, 3)
            .index_select(0, s.longs({chosen.begin(), chosen.end()}).clamp_min(0));
  t.out = s.zeros({rows, kv * group, dim}, p.type);
  const at::Tensor resolved = s.zeros({rows}, at::kInt);
  succeed(s, s.kernels.begin_pass(static_cast<std::int32_t>(rows), words_of(t.slots),
                                  words_of(given), words_of(token), words_of(state),
                                  words_of(t.positions), words_of(resolved), t.plan(), nullptr));
  return t;
}

std::vector<std::int32_t> all_rows(const paged_rows& p) {
  std::vector<std::int32_t> rows(static_cast<std::size_t>(p.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

void attend(const kernel_side& s, const paged_rows& p, const paged_tensors& t) {
  succeed(s, s.kernels.paged_attention(element_of(p.type), p.shape, t.rows(), t.pages(), t.plan(),
                                       t.room(), data_of(t.q), data_of(t.out), nullptr));
}

kernel_run attention_of(const paged_rows& p, std::int32_t shift) {
  return [=](const kernel_side& s) {
    const paged_tensors t = tensors_of(s, p, shift, all_rows(p));
    attend(s, p, t);
    CHECK(t.counters.eq(0).all().item<bool>());
    return std::vector<at::Tensor>{t.out};
  };
}

const std::vector<std::int32_t> mixed_lengths{1,   31,  32,  33, 64,  65,   0,    127,  128,  129,
                                              255, 256, 257, 0,  576, 1023, 1024, 1025, 1500, 2100};

/// More work items than blocks that a device has at once: every block takes several, one after the
/// other.
const std::vector<std::int32_t> many_lengths = [] {
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < 120; ++i)
    for (std::int32_t length : {1, 33, 0, 129, 257, 1100})
      lengths.push_back(length);
  return lengths;
}();
const std::vector<quern_heads> shapes_of_many{{2, 6, 128}, {2, 7, 64}, {2, 9, 128}};

const std::vector<quern_heads> generation_shapes{
    {2, 7, 64}, {2, 6, 128}, {4, 7, 128}, {8, 4, 128}, {8, 2, 128}, {1, 16, 64},
    {3, 1, 64}, {2, 9, 128}, {2, 3, 8},   {2, 3, 32},  {1, 20, 64}, {1, 2, 256}};

std::string shape_name(const char* what, const paged_rows& p) {
  return name_of(what, p.type, {p.shape.kv_heads, p.shape.group, p.shape.dim, p.longest()});
}

/// ATen's flash attention over the same rows, keys and values gathered from the pages.
at::Tensor flash(const kernel_side& s, const paged_rows& p, const paged_tensors& t) {
  const auto [kv, group, dim] = p.shape;
  // Sequences without a query have no place in its form for single queries.
  std::vector<std::int32_t> begin{0}, starts{0}, slots;
  for (std::int32_t row = 0; row < p.rows(); ++row) {
    const std::int32_t length = p.lengths[static_cast<std::size_t>(row)];
    if (length == 0) continue;
    slots.push_back(row);
    begin.push_back(begin.back() + length);
    starts.push_back(starts.back() + 1);
  }
  const auto count = static_cast<std::int32_t>(slots.size());
  const at::Tensor cu_k = s.integers(begin), cu_q = s.integers(starts), slot = s.integers(slots),
                   keys = s.zeros({begin.back(), kv, dim}, p.type), values = at::zeros_like(keys);
  succeed(s, s.kernels.gather_pages(element_of(p.type), p.shape, t.pages(), count, p.longest(),
                                    words_of(slot), words_of(cu_k), data_of(keys), data_of(values),
                                    nullptr));
  const at::Tensor used = t.positions.ge(0).nonzero().view({-1});
  const at::Tensor q = t.q.index_select(0, used);
  const auto result = at::_flash_attention_forward(
      q, keys, values, cu_q, cu_k, 1, p.longest(), 0.0, false, false,
      std::optional<double>(1 / std::sqrt(static_cast<double>(dim))), std::nullopt, std::nullopt,
      std::optional<at::Tensor>(), std::optional<at::Tensor>());
  at::Tensor out = at::zeros_like(t.out);
  out.index_copy_(0, used, std::get<0>(result));
  return out;
}

void compare_with_flash(const kernel_side& s, const paged_rows& p) {
  const paged_tensors t = tensors_of(s, p, 0, all_rows(p)),
                      wrong = tensors_of(s, p, -1, all_rows(p));
  attend(s, p, t);
  attend(s, p, wrong);
  CHECK(t.counters.eq(0).all().item<bool>());
  const at::Tensor theirs = flash(s, p, t);
  const double error = distance(theirs, t.out), control = distance(theirs, wrong.out);
  std::printf("%-58s error %.2e (up to 2e-02)  control %.2e\n",
              shape_name("paged_attention, flash", p).c_str(), error, control);
  CHECK(error < 2e-2);
  CHECK(control > 4e-2);
}

}  // namespace

TEST_CASE("attention over pages is the scalar kernel's, and every counter returns to zero") {
  if (!go_on_with_kernels()) return;
  for (at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const quern_heads& shape : generation_shapes) {
      const paged_rows p{shape, type, mixed_lengths};
      compare(shape_name("paged_attention", p), type == at::kFloat ? 1e-4 : 2e-2,
              attention_of(p, 0), attention_of(p, -1));
    }
  const paged_rows long_rows{{2, 7, 64}, at::kBFloat16, {9000, 4096, 4097}};
  compare(shape_name("paged_attention", long_rows), 2e-2, attention_of(long_rows, 0),
          attention_of(long_rows, -1400));
}

TEST_CASE("attention over pages is ATen's flash attention") {
  if (!go_on_with_kernels()) return;
  const kernel_side s(**cuda_policy_kernels(), at::kCUDA);
  for (const quern_heads& shape : generation_shapes)
    compare_with_flash(s, {shape, at::kBFloat16, mixed_lengths});
  for (const quern_heads& shape : shapes_of_many)
    compare_with_flash(s, {shape, at::kBFloat16, many_lengths});
}

TEST_CASE("a row's attention is the same bits alone and in any batch") {
  if (!go_on_with_kernels()) return;
  const kernel_side s(**cuda_policy_kernels(), at::kCUDA);
  for (const quern_heads& shape :
       {quern_heads{2, 7, 64}, quern_heads{2, 6, 128}, quern_heads{2, 3, 8}}) {
    const paged_rows p{shape, at::kBFloat16, mixed_lengths};
    const paged_tensors together = tensors_of(s, p, 0, all_rows(p));
    attend(s, p, together);
    std::vector<std::int32_t> backwards = all_rows(p);
    std::reverse(backwards.begin(), backwards.end());
    const paged_tensors reversed = tensors_of(s, p, 0, backwards);
    attend(s, p, reversed);
    CHECK(reversed.out.flip({0}).equal(together.out));
    for (std::int32_t row : {0, 8, 12, 14, 16}) {
      const paged_tensors alone = tensors_of(s, p, 0, {row});
      attend(s, p, alone);
      CHECK(alone.out[0].equal(together.out[row]));
    }
    CHECK_FALSE(together.out[8].equal(together.out[9]));
  }
  for (const quern_heads& shape : shapes_of_many) {
    const paged_rows p{shape, at::kBFloat16, many_lengths};
    const paged_tensors together = tensors_of(s, p, 0, all_rows(p));
    attend(s, p, together);
    for (std::int32_t row = 0; row < p.rows(); row += 37) {
      const paged_tensors alone = tensors_of(s, p, 0, {row});
      attend(s, p, alone);
      CHECK(alone.out[0].equal(together.out[row]));
    }
  }
}

TEST_CASE("heads go to their pages") {
  if (!go_on_with_kernels()) return;
  for (at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const quern_heads& shape : generation_shapes)
      for (bool qwen3 : {false, true}) {
        const auto with = [&](std::int32_t shift) {
          return [=](const kernel_side& s) {
            const paged_rows p{shape, type, {1, 40, 0, 64, 65, 130}};
            const paged_tensors t = tensors_of(s, p, shift, all_rows(p));
            const auto [kv, group, dim] = shape;
            const std::int64_t wide = std::int64_t{kv} * (group + 2) * dim;
            const at::Tensor qkv = s.numbers({p.rows(), wide}, type, 5),
                             bias = qwen3 ? at::Tensor() : s.numbers({wide}, type, 6),
                             q_norm = qwen3 ? s.numbers({dim}, type, 7) : at::Tensor(),
                             k_norm = qwen3 ? s.numbers({dim}, type, 8) : at::Tensor(),
                             angle = s.numbers({200, dim / 2}, at::kFloat, 9), cos = angle.cos(),
                             sin = angle.sin(), q = at::zeros_like(t.q);
            const quern_head_steps how{data_of(q_norm), data_of(k_norm), 1e-6F, floats_of(cos),
                                       floats_of(sin)};
            succeed(s,
                    s.kernels.heads_to_pages(element_of(type), shape, how, t.rows(), data_of(qkv),
                                             data_of(bias), t.pages(), data_of(q), nullptr));
            return std::vector<at::Tensor>{q, t.keys, t.values};
          };
        };
        compare(name_of(qwen3 ? "heads_to_pages, norms" : "heads_to_pages, bias", type,
                        {shape.kv_heads, shape.group, shape.dim}),
                type == at::kFloat ? 5e-5 : 1.2e-2, with(0), with(-1));
      }
}

namespace {

std::int32_t low_word(std::uint64_t x) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(x));
}
std::int32_t high_word(std::uint64_t x) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(x >> 32));
}

constexpr std::int32_t sampling_slots = 300;

/// Slots with all kinds of settings; `shift` moves their places among the random numbers.
std::vector<std::int32_t> slot_states(std::int32_t shift) {
  std::vector<std::int32_t> words(static_cast<std::size_t>(sampling_slots * quern_slot_words), 0);
  for (std::int32_t i = 0; i < sampling_slots; ++i) {
    std::int32_t* w = words.data() + static_cast<std::ptrdiff_t>(i) * quern_slot_words;
    const auto where =
        base::random_address::of(11, "policy/sample", {static_cast<std::uint64_t>(i)});
    w[quern_slot_active] = i % 13 == 5 ? 0 : 1;
    w[quern_slot_position] = 100 + i;
    w[quern_slot_index] = i % 7 + shift;
    w[quern_slot_limit] = i % 3 == 0 ? i % 7 + 1 : 1000;
    w[quern_slot_greedy] = i % 10 == 9 ? 1 : 0;
    const float temperature = i % 4 == 0 ? 1.0F : i % 4 == 1 ? 0.6F : i % 4 == 2 ? 1.3F : 3.0F;
    w[quern_slot_inverse_temperature] = std::bit_cast<std::int32_t>(1 / temperature);
    w[quern_slot_key_low] = low_word(where.key);
    w[quern_slot_key_high] = high_word(where.key);
    w[quern_slot_stream_low] = low_word(where.stream);
    w[quern_slot_stream_high] = high_word(where.stream);
    w[quern_slot_stops] = 16;
    for (std::int32_t k = 0; k < 16; ++k)
      w[quern_slot_first_stop + k] = k * 3;
  }
  return words;
}

struct drawn {
  at::Tensor state, tokens, log_probs, raw_log_probs, flags;
};

drawn draw(const kernel_side& s, std::int64_t columns, std::int64_t valid, std::int32_t shift) {
  const at::Tensor state = s.integers(slot_states(shift));
  const std::int64_t rows = 40;
  at::Tensor logits = s.numbers({rows, columns}, at::kFloat, 4).mul_(3);
  logits.select(0, 1).narrow(0, 0, valid / 2).fill_(-std::numeric_limits<float>::infinity());
  logits.select(0, 2).fill_(0.5);  // all equal: greedy takes the lowest
  std::vector<std::int32_t> row, slot;
  for (std::int32_t i = 0; i < sampling_slots; ++i) {
    row.push_back(i % static_cast<std::int32_t>(rows));
    slot.push_back(i % 17 == 16 ? -1 : sampling_slots - 1 - i);
  }
  const std::int64_t chunks = (valid + quern_chunk - 1) / quern_chunk;
  const at::Tensor rows_of = s.integers(row), slots_of = s.integers(slot),
                   room = s.zeros({sampling_slots, chunks, 4}, at::kFloat),
                   counters = s.zeros({sampling_slots}, at::kInt),
                   out = s.zeros({sampling_slots, 4}, at::kInt);
  const quern_sampling what{sampling_slots,
                            words_of(rows_of),
                            words_of(slots_of),
                            floats_of(logits),
                            columns,
                            valid,
                            floats_of(room),
                            words_of(counters),
                            nullptr};
  succeed(s, s.kernels.sample(what, words_of(state), static_cast<quern_sampled*>(data_of(out)),
                              nullptr));
  CHECK(counters.eq(0).all().item<bool>());
  const at::Tensor host = out.to(at::kCPU);
  return {state.to(at::kCPU), host.select(1, 0), host.select(1, 1).contiguous().view(at::kFloat),
          host.select(1, 2).contiguous().view(at::kFloat), host.select(1, 3)};
}

}  // namespace

TEST_CASE("sampled tokens, log-probs and states are those of the CPU's sampler") {
  if (!go_on_with_kernels()) return;
  const kernel_side gpu(**cuda_policy_kernels(), at::kCUDA), host(host_policy_kernels(), at::kCPU);
  struct size {
    std::int64_t columns, valid;
  };
  for (const size& n :
       {size{61, 61}, size{500, 100}, size{8192, 8192}, size{30001, 30001}, size{151936, 151665}}) {
    const drawn a = draw(host, n.columns, n.valid, 0), b = draw(gpu, n.columns, n.valid, 0),
                c = draw(gpu, n.columns, n.valid, 1);
    const auto other = a.tokens.ne(b.tokens).sum().item<std::int64_t>();
    const at::Tensor same = a.tokens.eq(b.tokens);
    const double
        error = (a.log_probs - b.log_probs).abs().masked_select(same).max().item<double>(),
        raw = (a.raw_log_probs - b.raw_log_probs).abs().masked_select(same).max().item<double>();
    std::printf(
        "sample %lld of %lld: %lld tokens differ, log-prob error %.1e, raw %.1e; control: %lld "
        "differ\n",
        static_cast<long long>(n.valid), static_cast<long long>(n.columns),
        static_cast<long long>(other), error, raw,
        static_cast<long long>(a.tokens.ne(c.tokens).sum().item<std::int64_t>()));
    // A number may fall between the two sides' roundings of a sum: about once in a million.
    CHECK(other <= 1);
    CHECK(error < 2e-5);
    CHECK(raw < 2e-5);
    if (other == 0) {
      CHECK(a.flags.equal(b.flags));
      CHECK(a.state.equal(b.state));
    }
    CHECK(a.tokens.max().item<int>() < n.valid);
    CHECK(a.tokens.ne(c.tokens).sum().item<std::int64_t>() > 50);  // the control
  }
}

TEST_CASE("a sampled token's log-prob is, to the bit, what log-softmax of the same row gives") {
  if (!go_on_with_kernels()) return;
  const kernel_side s(**cuda_policy_kernels(), at::kCUDA);
  const std::int64_t columns = 151936, rows = 40;
  const drawn d = draw(s, columns, columns, 0);
  at::Tensor logits = s.numbers({rows, columns}, at::kFloat, 4).mul_(3);
  logits.select(0, 1).narrow(0, 0, columns / 2).fill_(-std::numeric_limits<float>::infinity());
  logits.select(0, 2).fill_(0.5);
  const auto words = slot_states(0);
  std::vector<std::int64_t> entries, targets, from;
  std::vector<float> inverse;
  for (std::int32_t i = 0; i < sampling_slots; ++i) {
    const std::int32_t* w =
        words.data() + static_cast<std::ptrdiff_t>(sampling_slots - 1 - i) * quern_slot_words;
    if ((d.flags[i].item<int>() & 1) == 0 || w[quern_slot_greedy] != 0) continue;
    entries.push_back(i);
    from.push_back(i % rows);
    targets.push_back(d.tokens[i].item<int>());
    inverse.push_back(std::bit_cast<float>(w[quern_slot_inverse_temperature]));
  }
  REQUIRE(entries.size() > 200);
  const auto count = static_cast<std::int64_t>(entries.size());
  const at::Tensor z = logits.index_select(0, s.longs(from)), target = s.longs(targets),
                   scale = s.floats(inverse), log_prob = s.zeros({count}, at::kFloat),
                   entropy = s.zeros({count}, at::kFloat), lse = s.zeros({count}, at::kFloat);
  succeed(s, s.kernels.log_softmax_rows(count, columns, columns, floats_of(z),
                                        target.const_data_ptr<std::int64_t>(), floats_of(scale),
                                        floats_of(log_prob), floats_of(entropy), floats_of(lse),
                                        nullptr));
  const at::Tensor sampled = d.log_probs.index_select(0, at::tensor(entries));
  CHECK(log_prob.to(at::kCPU).equal(sampled));
}
