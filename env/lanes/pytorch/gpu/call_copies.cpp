// What the evaluator copies between the calls of a window.
#include "env/lanes/pytorch/gpu/call_copies.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "env/gpu/check_layer.hpp"

namespace quern::env {
namespace {

constexpr std::uint64_t bytes_of_last_lines = most_last_lines * late_line;
/// Of a call in pinned memory: its late bytes, with others in the place of its last lines; these
/// lines; others in their place; samples at the answer and behind the window.
constexpr std::uint64_t at_last = most_late_bytes, at_decoy = at_last + bytes_of_last_lines,
                        at_sample = at_decoy + bytes_of_last_lines,
                        at_later_sample = at_sample + most_sampled_bytes,
                        bytes_of_a_call = at_later_sample + most_sampled_bytes;

constexpr double again_share = 0.5, pause_share = 1.0 / 16;
/// Longer than what passes between a change of all late bytes and the question.
constexpr base::nanoseconds_t pause_ns = 20'000;

quern_byte_rows rows_of(const late_bytes& late) {
  return {late.width, late.rows, late.pitch, late.width};
}

quern_byte_rows last_rows_of(const late_bytes& late) {
  return {late_line, late.last_rows(), late.last_every * late.pitch, late_line};
}

}  // namespace

std::byte* call_copies::host(std::size_t call, std::uint64_t offset) const {
  return memory_.pinned().data() + call * bytes_of_a_call + offset;
}

base::status call_copies::take(std::uint64_t staged, std::size_t calls) {
  QUERN_CHECK(memory_.pin(calls * bytes_of_a_call));
  staged_ = staged;
  calls_.assign(calls, {});
  sampled_ = 0;
  for (std::size_t call = 0; call < calls; ++call) {
    one_call& one = calls_[call];
    one.sample = choose_sample(places_.at.outputs, random_);
    if (places_.at.inputs.empty()) continue;
    one.late = choose_late_bytes(input_stride(), random_);
    one.changes_again = random_.chance(again_share) && is_on(check_layer::pause);
    one.pauses = random_.chance(pause_share) && is_on(check_layer::pause);
    context_.fetch(host(call, 0), staged + call * input_stride() + one.late.begin(),
                   rows_of(one.late));
  }
  context_.wait_for_copies();
  if (const auto done = context_.wait(); !done) return tl::make_unexpected(done.error());
  if (places_.at.inputs.empty()) return {};
  std::vector<std::byte> lines(calls * bytes_of_last_lines);
  for (std::size_t call = 0; call < calls; ++call)
    hide_last_lines(call, lines);
  lines_before_ = std::move(lines);
  return {};
}

/// Puts lines of other calls of the window before in the place of this one's last ones.
void call_copies::hide_last_lines(std::size_t call, std::vector<std::byte>& lines) {
  const late_bytes& late = calls_[call].late;
  lines_before_.resize(std::max(lines_before_.size(), lines.size()));
  const std::size_t before = lines_before_.size() / bytes_of_last_lines;
  const auto other = [&](std::size_t further) {
    return lines_before_.data() + (call + further) % before * bytes_of_last_lines;
  };
  for (std::uint64_t i = 0; i < late.last_rows(); ++i) {
    std::byte* at = host(
        call, (late.last_row + i * late.last_every) * late.width + late.last_column - late.column);
    std::memcpy(host(call, at_last + i * late_line), at, late_line);
    std::memcpy(lines.data() + call * bytes_of_last_lines + i * late_line, at, late_line);
    std::memcpy(at, other(1) + i * late_line, late_line);
    std::memcpy(host(call, at_decoy + i * late_line), other(2) + i * late_line, late_line);
  }
}

void call_copies::put_rest(std::uint64_t inputs) {
  if (!is_on(check_layer::late) || places_.at.inputs.empty()) {
    context_.copy(inputs, staged_, calls_.size() * input_stride());
    return;
  }
  for (std::size_t call = 0; call < calls_.size(); ++call) {
    const late_bytes& late = calls_[call].late;
    const std::uint64_t from = staged_ + call * input_stride(), to = inputs + call * input_stride();
    // Up to the first late byte; between those of two rows; behind the last one.
    const std::uint64_t behind = late.column + late.width,
                        end = (late.rows - 1) * late.pitch + behind;
    if (late.column > 0) context_.copy(to, from, late.column);
    context_.copy_rows(to + behind, from + behind, late.pitch - late.width, late.rows - 1,
                       late.pitch);
    if (end < input_stride()) context_.copy(to + end, from + end, input_stride() - end);
  }
}

void call_copies::before_call(std::size_t call, std::uint64_t inputs, std::uint64_t outputs) {
  if (call > 0 && call <= calls_.size()) {
    fetch_sample(call - 1, outputs, at_sample);
    sampled_ = call;
  }
  if (call < calls_.size() && !places_.at.inputs.empty() && is_on(check_layer::late))
    send_late(call, inputs + call * input_stride());
  context_.wait_for_copies();
}

void call_copies::send_late(std::size_t call, std::uint64_t inputs) {
  const one_call& one = calls_[call];
  const std::uint64_t last = inputs + one.late.last_begin();
  context_.send(inputs + one.late.begin(), host(call, 0), rows_of(one.late));
  if (one.changes_again) context_.send(last, host(call, at_decoy), last_rows_of(one.late));
  if (one.pauses) {
    context_.wait_for_copies();
    const base::steady_clock clock;
    for (const auto begin = clock.now_ns(); clock.now_ns() - begin < pause_ns;) {
    }
  }
  context_.send(last, host(call, at_last), last_rows_of(one.late));
}

void call_copies::fetch_sample(std::size_t call, std::uint64_t outputs, std::uint64_t to) {
  const sampled_bytes& sample = calls_[call].sample;
  if (sample.rows == 0) return;
  context_.fetch(host(call, to),
                 outputs + call * places_.outputs.stride() + places_.outputs.offset(sample.output) +
                     sample.column,
                 {sample.width, sample.rows, sample.pitch, sample.width});
}

base::expected<std::optional<std::size_t>> call_copies::changed_behind_its_answer(
    std::uint64_t outputs) {
  for (std::size_t call = 0; call < sampled_; ++call)
    fetch_sample(call, outputs, at_later_sample);
  context_.wait_for_copies();
  if (const auto done = context_.wait(); !done) return tl::make_unexpected(done.error());
  for (std::size_t call = 0; call < sampled_; ++call) {
    const sampled_bytes& sample = calls_[call].sample;
    if (std::memcmp(host(call, at_sample), host(call, at_later_sample),
                    sample.rows * sample.width) != 0)
      return call;
  }
  return std::nullopt;
}

}  // namespace quern::env
