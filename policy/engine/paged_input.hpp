// Builds the input words of a pass (layout: pass_shape in paged_decoder.hpp). What is not added is
// padding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/engine/generation_schedule.hpp"
#include "policy/engine/paged_decoder.hpp"
#include "policy/engine/paged_requests.hpp"

namespace quern::policy {

class pass_input {
 public:
  pass_input(std::int32_t rows, std::int32_t samples, std::int32_t sources = 0) {
    shape_.rows = rows;
    shape_.samples = samples;
    shape_.sources = sources;
    words_.assign(static_cast<std::size_t>(shape_.words()), -1);
  }

  /// The next row; position -1: the slot's own. Returns its number.
  std::int32_t add_row(std::int32_t slot, std::int32_t position = -1, std::int32_t token = -1) {
    at(rows_) = slot;
    at(shape_.rows + rows_) = position;
    at(2 * shape_.rows + rows_) = token;
    return rows_++;
  }
  /// `logits`: a row, or the number of a source where there are sources.
  /// `given`: the token that is taken; -1: one is drawn.
  void add_sample(std::int32_t logits, std::int32_t slot, std::int32_t given) {
    at(3 * shape_.rows + samples_) = logits;
    at(3 * shape_.rows + shape_.samples + samples_) = slot;
    at(3 * shape_.rows + 2 * shape_.samples + samples_) = given;
    ++samples_;
  }
  void add_source(std::int32_t row) { at(3 * shape_.rows + 3 * shape_.samples + sources_++) = row; }
  /// Its rows were added last; chunks come in the order of their rows.
  void add_chunk(const flash_chunk& chunk) { shape_.chunks.push_back(chunk); }

  const pass_shape& shape() const { return shape_; }
  std::span<const std::int32_t> words() const { return words_; }
  /// With the words of the chunks, which are known only now.
  std::span<const std::int32_t> finished_words() {
    if (shape_.chunks.empty()) return words_;
    words_.resize(static_cast<std::size_t>(3 * shape_.rows + 3 * shape_.samples + shape_.sources));
    for (const flash_chunk& p : shape_.chunks)
      words_.push_back(p.slot);
    add_begins(&flash_chunk::rows);
    add_begins(&flash_chunk::end);
    return words_;
  }

 private:
  std::int32_t& at(std::int32_t i) { return words_[static_cast<std::size_t>(i)]; }
  void add_begins(std::int32_t flash_chunk::*size) {
    std::int32_t begin = 0;
    words_.push_back(begin);
    for (const flash_chunk& p : shape_.chunks)
      words_.push_back(begin += p.*size);
  }

  pass_shape shape_;
  std::vector<std::int32_t> words_;
  std::int32_t rows_ = 0, samples_ = 0, sources_ = 0;
};

/// A pass with the serial of each of its samples, in order.
struct counted_pass {
  pass_input input;
  std::vector<std::uint64_t> serials;
  std::int64_t prompt_rows = 0, padding = 0;
};

/// The rows that decode, at the next size for which there is a graph, at most `most`.
counted_pass input_of_rows(const schedule_step& plan, const paged_requests& requests,
                           std::int32_t most);
/// The chunks of prompts, no padding; with or without the words of flash attention.
counted_pass input_of_prompts(const schedule_step& plan, const paged_requests& requests,
                              bool flash);
/// Exact: prompts and decoding as single tokens in a pass of one shape.
counted_pass input_of_everything(const schedule_step& plan, const paged_requests& requests,
                                 std::int32_t rows, std::int32_t samples);

}  // namespace quern::policy
