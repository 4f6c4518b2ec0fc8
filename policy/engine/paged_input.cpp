// From what a schedule decides to the words of a pass.
#include "policy/engine/paged_input.hpp"

#include <algorithm>

namespace quern::policy {
namespace {

/// Sizes for which there are graphs: the next above.
std::int32_t rows_for(std::int32_t wanted, std::int32_t most) {
  std::int32_t rows = 1;
  while (rows < wanted)
    rows += rows < 8 ? rows : rows < 64 ? 8 : rows < 256 ? 32 : 64;
  return std::min(rows, most);
}

void add_decoding(const schedule_step& plan, const paged_requests& requests, counted_pass& pass) {
  for (const decode_row& row : plan.rows) {
    pass.input.add_sample(pass.input.add_row(row.slot), row.slot,
                          requests.given_at(row.serial, row.position + 1));
    pass.serials.push_back(row.serial);
  }
}

/// The last row of the chunk.
std::int32_t add_tokens(const prompt_chunk& p, const paged_requests& requests, counted_pass& pass) {
  const std::vector<std::int32_t>& tokens = requests.at(p.serial).tokens;
  std::int32_t row = 0;
  for (std::int64_t i = p.begin; i < p.end; ++i)
    row = pass.input.add_row(p.slot, static_cast<std::int32_t>(i),
                             tokens[static_cast<std::size_t>(i)]);
  pass.prompt_rows += p.end - p.begin;
  return row;
}

/// For the chunk's own sequence and for those that share its prompt.
void add_samples(const prompt_chunk& p, const paged_requests& requests, std::int32_t logits,
                 counted_pass& pass) {
  pass.input.add_sample(logits, p.slot, requests.given_at(p.serial, p.end));
  pass.serials.push_back(p.serial);
  for (const prompt_chunk::member& m : p.members) {
    pass.input.add_sample(logits, m.slot, requests.given_at(m.serial, p.end));
    pass.serials.push_back(m.serial);
  }
}

}  // namespace

counted_pass input_of_rows(const schedule_step& plan, const paged_requests& requests,
                           std::int32_t most) {
  const auto count = static_cast<std::int32_t>(plan.rows.size());
  const std::int32_t rows = rows_for(count, most);
  counted_pass pass{pass_input(rows, rows), {}, 0, rows - count};
  add_decoding(plan, requests, pass);
  return pass;
}

counted_pass input_of_prompts(const schedule_step& plan, const paged_requests& requests,
                              bool flash) {
  std::int32_t rows = 0, samples = 0, sources = 0;
  for (const prompt_chunk& p : plan.chunks) {
    rows += static_cast<std::int32_t>(p.end - p.begin);
    if (!p.last) continue;
    ++sources;
    samples += 1 + static_cast<std::int32_t>(p.members.size());
  }
  counted_pass pass{pass_input(rows, samples, sources), {}, 0, 0};
  std::int32_t source = 0;
  for (const prompt_chunk& p : plan.chunks) {
    const std::int32_t row = add_tokens(p, requests, pass);
    if (flash)
      pass.input.add_chunk(
          {p.slot, static_cast<std::int32_t>(p.end - p.begin), static_cast<std::int32_t>(p.end)});
    if (!p.last) continue;
    pass.input.add_source(row);
    add_samples(p, requests, source++, pass);
  }
  return pass;
}

counted_pass input_of_everything(const schedule_step& plan, const paged_requests& requests,
                                 std::int32_t rows, std::int32_t samples) {
  counted_pass pass{pass_input(rows, samples), {}, 0, 0};
  add_decoding(plan, requests, pass);
  for (const prompt_chunk& p : plan.chunks) {
    const std::int32_t row = add_tokens(p, requests, pass);
    if (p.last) add_samples(p, requests, row, pass);
  }
  pass.padding = rows - static_cast<std::int64_t>(plan.rows.size()) - pass.prompt_rows;
  return pass;
}

}  // namespace quern::policy
