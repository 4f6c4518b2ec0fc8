// The scalar table's part of generation, and the table.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "policy/device/host_kernels.hpp"
#include "policy/device/library.hpp"
#include "policy/engine/sampler.hpp"
#include "policy/weights/weight_hash.hpp"

namespace quern::policy {
namespace {

using namespace host;

std::int32_t host_apply_edits(std::int32_t* words, const std::int32_t* edits, std::int32_t count,
                              void*) {
  for (std::int32_t i = 0; i < count; ++i)
    words[edits[2 * i]] = edits[2 * i + 1];
  return 0;
}

std::int32_t host_begin_pass(std::int32_t rows, const std::int32_t* slot,
                             const std::int32_t* given_position, const std::int32_t* given_token,
                             const std::int32_t* state, std::int32_t* position, std::int32_t* token,
                             quern_attention_plan plan, void*) {
  std::int32_t items = 0;
  for (std::int32_t r = 0; r < rows; ++r) {
    position[r] = slot[r] < 0 ? -1 : given_position[r];
    token[r] = given_token[r];
    if (slot[r] >= 0 && position[r] < 0) {
      const std::int32_t* words = state + std::int64_t{slot[r]} * quern_slot_words;
      position[r] = words[quern_slot_active] != 0 ? words[quern_slot_position] : -1;
      token[r] = words[quern_slot_token];
    }
    if (position[r] < 0) token[r] = -1;
    if (plan.items == nullptr) continue;
    plan.first_item[r] = items;
    for (std::int32_t s = 0; position[r] >= 0 && s <= position[r] / quern_split; ++s) {
      plan.items[1 + 2 * items] = r;
      plan.items[2 + 2 * items] = s;
      ++items;
    }
  }
  if (plan.items != nullptr) plan.items[0] = items;
  return 0;
}

std::int32_t host_take_rows(std::int32_t type, std::int32_t rows, std::int32_t width,
                            const void* table, const std::int32_t* index, void* out, void*) {
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < width; ++i)
        as<T>(out)[r * width + i] =
            index[r] < 0 ? T{} : as<T>(table)[std::int64_t{index[r]} * width + i];
  });
}

/// Where (slot, position, kv head) lies in keys and values.
std::int64_t page_offset(const quern_heads& s, const quern_pages& pages, std::int64_t slot,
                         std::int64_t position, std::int64_t head) {
  const std::int64_t page = pages.tables[slot * pages.table_width + position / pages.page];
  return ((page * s.kv_heads + head) * pages.page + position % pages.page) * s.dim;
}

std::int32_t host_heads_to_pages(std::int32_t type, quern_heads s, quern_head_steps how,
                                 quern_rows rows, const void* qkv, const void* bias,
                                 quern_pages pages, void* q, void*) {
  const std::int64_t heads = std::int64_t{s.kv_heads} * (s.group + 2);
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows.count; ++r) {
      if (rows.slot[r] < 0 || rows.position[r] < 0) continue;
      for (std::int64_t h = 0; h < heads; ++h) {
        const head_place<T> place(s, how, h);
        auto x = head_of<T>(as<T>(qkv) + (r * heads + h) * s.dim,
                            bias != nullptr ? as<T>(bias) + h * s.dim : nullptr, s.dim);
        if (place.norm != nullptr) norm_head(x, place.norm, how.eps);
        if (place.kind != head_place<T>::value) turn_head(x, how, rows.position[r], 1);
        if (place.kind == head_place<T>::query)
          put_head(x, as<T>(q) + (r * s.kv_heads * s.group + h) * s.dim);
        else
          put_head(x, as<T>(place.kind == head_place<T>::key ? pages.keys : pages.values) +
                          page_offset(s, pages, rows.slot[r], rows.position[r], place.index));
      }
    }
  });
}

template <class T>
void attend_plainly(const quern_heads& s, const quern_pages& pages, std::int64_t slot,
                    std::int64_t length, std::int64_t head, const T* q, T* out) {
  std::vector<double> score(static_cast<std::size_t>(length)), sum(static_cast<std::size_t>(s.dim));
  double top = -std::numeric_limits<double>::infinity(), total = 0;
  for (std::int64_t p = 0; p < length; ++p) {
    const T* key = as<T>(pages.keys) + page_offset(s, pages, slot, p, head);
    double dot = 0;
    for (std::int64_t d = 0; d < s.dim; ++d)
      dot += static_cast<double>(value_of(q[d])) * value_of(key[d]);
    score[static_cast<std::size_t>(p)] = dot / std::sqrt(static_cast<double>(s.dim));
    top = std::max(top, score[static_cast<std::size_t>(p)]);
  }
  for (std::int64_t p = 0; p < length; ++p) {
    const T* value = as<T>(pages.values) + page_offset(s, pages, slot, p, head);
    const double weight = std::exp(score[static_cast<std::size_t>(p)] - top);
    total += weight;
    for (std::int64_t d = 0; d < s.dim; ++d)
      sum[static_cast<std::size_t>(d)] += weight * value_of(value[d]);
  }
  for (std::int64_t d = 0; d < s.dim; ++d)
    out[d] = rounded<T>(sum[static_cast<std::size_t>(d)] / total);
}

std::int32_t host_paged_attention(std::int32_t type, quern_heads s, quern_rows rows,
                                  quern_pages pages, quern_attention_plan, quern_attention_room,
                                  const void* q, void* out, void*) {
  return with_host_element(type, [&]<class T>(T) {
    const std::int64_t heads = std::int64_t{s.kv_heads} * s.group;
    for (std::int64_t r = 0; r < rows.count; ++r)
      for (std::int64_t h = 0; h < heads && rows.slot[r] >= 0 && rows.position[r] >= 0; ++h)
        attend_plainly<T>(s, pages, rows.slot[r], rows.position[r] + 1, h / s.group,
                          as<T>(q) + (r * heads + h) * s.dim, as<T>(out) + (r * heads + h) * s.dim);
  });
}

std::int32_t host_gather_pages(std::int32_t type, quern_heads s, quern_pages pages,
                               std::int32_t sequences, std::int32_t, const std::int32_t* slot,
                               const std::int32_t* begin, void* keys, void* values, void*) {
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t i = 0; i < sequences; ++i)
      for (std::int64_t p = 0; p < begin[i + 1] - begin[i]; ++p)
        for (std::int64_t h = 0; h < s.kv_heads; ++h) {
          const std::int64_t from = page_offset(s, pages, slot[i], p, h),
                             to = ((begin[i] + p) * s.kv_heads + h) * s.dim;
          std::copy_n(as<T>(pages.keys) + from, s.dim, as<T>(keys) + to);
          std::copy_n(as<T>(pages.values) + from, s.dim, as<T>(values) + to);
        }
  });
}

std::int32_t host_copy_pages(void* base, std::int64_t slab_bytes, std::int32_t slabs,
                             std::int64_t page_bytes, const std::int32_t* pairs, std::int32_t count,
                             void*) {
  for (std::int64_t slab = 0; slab < slabs; ++slab)
    for (std::int32_t i = 0; i < count; ++i) {
      auto* start = as<std::byte>(base) + slab * slab_bytes;
      std::memcpy(start + pairs[2 * i + 1] * page_bytes, start + pairs[2 * i] * page_bytes,
                  static_cast<std::size_t>(page_bytes));
    }
  return 0;
}

std::uint64_t word_pair(const std::int32_t* words, int low, int high) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(words[high])) << 32) |
         static_cast<std::uint32_t>(words[low]);
}

sampled_token choose_token(std::span<const float> logits, const std::int32_t* words,
                           std::int32_t given) {
  const base::random_address where{word_pair(words, quern_slot_key_low, quern_slot_key_high),
                                   word_pair(words, quern_slot_stream_low, quern_slot_stream_high)};
  const auto bits = base::random_block(where, static_cast<std::uint64_t>(words[quern_slot_index]));
  const std::uint64_t word = (static_cast<std::uint64_t>(bits[0]) << 32) | bits[1];
  const double u = (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
  const auto inverse = std::bit_cast<float>(words[quern_slot_inverse_temperature]);
  const bool greedy = words[quern_slot_greedy] != 0;
  const double temperature = greedy ? 1 : 1 / static_cast<double>(inverse);
  if (given >= 0) return given_token(logits, temperature, given);
  return greedy ? greedy_token(logits) : sample_token(logits, temperature, u);
}

quern_sampled sample_slot(std::span<const float> logits, std::int32_t* words, std::int32_t given) {
  const sampled_token drawn = choose_token(logits, words, given);
  quern_sampled result{drawn.token, drawn.log_prob, drawn.raw_log_prob, 1};
  for (int i = 0; i < words[quern_slot_stops]; ++i)
    if (words[quern_slot_first_stop + i] == drawn.token) result.flags |= 2;
  if (++words[quern_slot_index] >= words[quern_slot_limit]) result.flags |= 4;
  words[quern_slot_token] = drawn.token;
  ++words[quern_slot_position];
  if (result.flags != 1) words[quern_slot_active] = 0;
  return result;
}

std::int32_t host_sample(quern_sampling what, std::int32_t* state, quern_sampled* out, void*) {
  for (std::int32_t i = 0; i < what.count; ++i) {
    std::int32_t* words = state + std::int64_t{std::max(what.slot[i], 0)} * quern_slot_words;
    if (what.slot[i] < 0 || words[quern_slot_active] == 0) {
      out[i] = {-1, 0, 0, 0};
      continue;
    }
    const std::int64_t row = what.logit_row != nullptr ? what.logit_row[i] : i;
    out[i] = sample_slot({what.logits + row * what.columns, static_cast<std::size_t>(what.valid)},
                         words, what.given != nullptr ? what.given[i] : -1);
  }
  return 0;
}

/// Row r of x with row i of w.
template <class T>
double host_product(const T* x, const T* w, std::int64_t width, std::int64_t r, std::int64_t i) {
  double sum = 0;
  for (std::int64_t k = 0; k < width; ++k)
    sum += static_cast<double>(value_of(x[r * width + k])) * value_of(w[i * width + k]);
  return sum;
}

std::int32_t host_few_rows_product(std::int32_t type, std::int32_t rows, std::int32_t columns,
                                   std::int32_t width, const void* x, const void* w,
                                   const void* bias, void* y, void*) {
  if (rows < 0 || rows > quern_few_rows || columns < 1 || width < 1) return bad_call;
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < columns; ++i)
        as<T>(y)[r * columns + i] =
            rounded<T>(host_product(as<T>(x), as<T>(w), width, r, i) +
                       (bias != nullptr ? static_cast<double>(value_of(as<T>(bias)[i])) : 0.0));
  });
}

std::int32_t host_few_rows_swiglu(std::int32_t type, std::int32_t rows, std::int32_t columns,
                                  std::int32_t width, const void* x, const void* w, void* act,
                                  void*) {
  if (rows < 0 || rows > quern_few_rows || columns < 1 || width < 1) return bad_call;
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < columns; ++i) {
        const double gate = value_of(rounded<T>(host_product(as<T>(x), as<T>(w), width, r, i))),
                     up = value_of(
                         rounded<T>(host_product(as<T>(x), as<T>(w), width, r, columns + i)));
        as<T>(act)[r * columns + i] = rounded<T>(gate / (1 + std::exp(-gate)) * up);
      }
  });
}

std::int32_t host_hash_elements(std::int32_t type, quern_hashed_part what, const void* x,
                                std::uint64_t* sums, void*) {
  return with_host_element(type, [&]<class T>(T) {
    for (std::int64_t r = 0; r < what.rows; ++r)
      for (std::int64_t c = 0; c < what.columns; ++c) {
        const std::uint64_t index = what.first + static_cast<std::uint64_t>(r) * what.stride +
                                    static_cast<std::uint64_t>(c);
        const auto one =
            element_hash({what.seed_high, what.seed_low}, index,
                         std::bit_cast<std::uint32_t>(value_of(as<T>(x)[r * what.columns + c])));
        sums[0] += one.low;
        sums[1] += one.high;
      }
  });
}

const char* host_problem(std::int32_t code) {
  return code == 0 ? "no error" : "invalid argument";
}
std::int32_t host_memory(std::int64_t* free_bytes, std::int64_t* total_bytes) {
  *free_bytes = *total_bytes = std::int64_t{1} << 30;
  return 0;
}
std::int32_t host_multiprocessors(std::int32_t* count) {
  *count = 1;
  return 0;
}

constexpr quern_policy_kernels host_table{"host",
                                          &host_problem,
                                          &host_memory,
                                          &host_multiprocessors,
                                          &host::add_rms_norm,
                                          &host::rms_norm_backward,
                                          &host::swiglu,
                                          &host::swiglu_backward,
                                          &host::split_heads,
                                          &host::split_heads_backward,
                                          &host::softmax_tile,
                                          &host::softmax_tile_backward,
                                          &host::log_softmax_rows,
                                          &host::log_softmax_gradient,
                                          &host::adamw,
                                          &host_apply_edits,
                                          &host_begin_pass,
                                          &host_take_rows,
                                          &host_heads_to_pages,
                                          &host_paged_attention,
                                          &host_gather_pages,
                                          &host_copy_pages,
                                          &host_sample,
                                          &host_few_rows_product,
                                          &host_few_rows_swiglu,
                                          &host_hash_elements};

}  // namespace

const quern_policy_kernels& host_policy_kernels() {
  return host_table;
}

}  // namespace quern::policy
