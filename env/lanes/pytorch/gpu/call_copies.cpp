// What the evaluator copies between the calls of a window.
#include "env/lanes/pytorch/gpu/call_copies.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "env/gpu/check_layer.hpp"

namespace quern::env {
namespace {

constexpr std::uint64_t bytes_of_last_lines = most_last_lines * late_line;
/// Of a call in pinned memory: its late bytes, if it pauses with others in the place of its last
/// lines; these lines; samples at the answer and behind the window.
constexpr std::uint64_t at_last = most_late_bytes, at_sample = at_last + bytes_of_last_lines,
                        at_later_sample = at_sample + most_sampled_bytes,
                        bytes_of_a_call = at_later_sample + most_sampled_bytes;
/// Before those of the calls: zeros, and what nobody reads.
constexpr std::uint64_t bytes_of_engines = 4096, bytes_before_calls = 2 * bytes_of_engines;

/// Each copy takes the processor some microseconds, which calls between feel in its caches. So most
/// calls have one: samples and pauses are for some calls, which nobody can tell ahead.
constexpr double pause_share = 1.0 / 16, sample_share = 1.0 / 4;
/// About what passes between the last copy and the work of a call that was asked, which is assumed,
/// not measured: whoever began that much sooner would be wrong.
constexpr base::nanoseconds_t pause_ns = 20'000;

quern_byte_rows rows_of(const late_bytes& late) {
  return {late.width, late.rows, late.pitch, late.width};
}

quern_byte_rows last_rows_of(const late_bytes& late) {
  return {late_line, late.last_rows(), late.last_every * late.pitch, late_line};
}

base::nanoseconds_t pause() {
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  auto now = begin;
  while (now - begin < pause_ns)
    now = clock.now_ns();
  return now - begin;
}

}  // namespace

std::span<std::byte> call_copies::host(std::size_t call, std::uint64_t offset,
                                       std::uint64_t bytes) const {
  return memory_.pinned().subspan(bytes_before_calls + call * bytes_of_a_call + offset, bytes);
}

base::status call_copies::take(std::uint64_t staged, std::size_t calls,
                               base::random_stream& random) {
  QUERN_CHECK(memory_.pin(bytes_before_calls + calls * bytes_of_a_call));
  staged_ = staged;
  calls_.assign(calls, {});
  sampled_ = 0;
  for (std::size_t call = 0; call < calls; ++call) {
    one_call& one = calls_[call];
    if (random.chance(sample_share)) one.sample = choose_sample(places_.at.outputs, random);
    if (places_.at.inputs.empty()) continue;
    one.late = choose_late_bytes(input_stride(), random);
    one.pauses = random.chance(pause_share) && is_on(check_layer::pause);
    context_.fetch(host(call, 0, most_late_bytes).data(),
                   staged + call * input_stride() + one.late.begin(), rows_of(one.late));
  }
  context_.wait_for_copies();
  if (const auto done = context_.wait(); !done) return tl::make_unexpected(done.error());
  if (places_.at.inputs.empty()) return {};
  for (std::size_t call = 0; call < calls; ++call)
    if (calls_[call].pauses)
      hold_back(calls_[call].late, host(call, 0, most_late_bytes),
                host(call, at_last, bytes_of_last_lines), random);
  return {};
}

void call_copies::put_rest(std::uint64_t inputs) {
  std::uint64_t copied = 0;  // from the begin of the first slot on, but for late bytes
  const auto copy_up_to = [&](std::uint64_t end) {
    if (end > copied) context_.copy(inputs + copied, staged_ + copied, end - copied);
  };
  const bool some_are_late = is_on(check_layer::late) && !places_.at.inputs.empty();
  for (std::size_t call = 0; some_are_late && call < calls_.size(); ++call) {
    const late_bytes& late = calls_[call].late;
    const std::uint64_t first = call * input_stride() + late.begin(), behind = first + late.width;
    copy_up_to(first);
    context_.copy_rows(inputs + behind, staged_ + behind, late.pitch - late.width, late.rows - 1,
                       late.pitch);
    copied = behind + (late.rows - 1) * late.pitch;
  }
  copy_up_to(calls_.size() * input_stride());
}

base::nanoseconds_t call_copies::before_call(std::size_t call, const side_memory& of) {
  base::nanoseconds_t paused = 0;
  if (call == 0) sampled_ = 0;
  if (call > 0 && call <= calls_.size()) {
    fetch_sample(call - 1, of.outputs, at_sample);
    sampled_ = call;
  }
  if (call < calls_.size() && !places_.at.inputs.empty() && is_on(check_layer::late))
    paused = send_late(call, of.inputs + call * input_stride());
  context_.wait_for_copies();
  return paused;
}

base::nanoseconds_t call_copies::send_late(std::size_t call, std::uint64_t inputs) {
  const one_call& one = calls_[call];
  context_.send(inputs + one.late.begin(), host(call, 0, most_late_bytes).data(),
                rows_of(one.late));
  if (!one.pauses) return 0;
  context_.wait_for_copies();
  // Who keeps this thread from its core in a pause gets no more than that.
  const auto paused = std::min(pause(), 2 * pause_ns);
  context_.send(inputs + one.late.last_begin(), host(call, at_last, bytes_of_last_lines).data(),
                last_rows_of(one.late));
  return paused;
}

void call_copies::pass_through_engines(std::uint64_t zeros) {
  const auto memory = memory_.pinned();
  if (zeros == 0 || memory.size() < bytes_before_calls) return;
  constexpr quern_byte_rows rows{256, bytes_of_engines / 256, 256, 256};
  std::ranges::fill(memory.first(bytes_of_engines), std::byte{0});
  context_.send(zeros, memory.data(), rows);
  context_.fetch(memory.data() + bytes_of_engines, zeros, rows);
  context_.wait_for_copies();
}

void call_copies::fetch_sample(std::size_t call, std::uint64_t outputs, std::uint64_t to) {
  const sampled_bytes& sample = calls_[call].sample;
  if (sample.rows == 0) return;
  context_.fetch(host(call, to, most_sampled_bytes).data(),
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
    const std::uint64_t bytes = calls_[call].sample.rows * calls_[call].sample.width;
    if (!std::ranges::equal(host(call, at_sample, bytes), host(call, at_later_sample, bytes)))
      return call;
  }
  return std::nullopt;
}

}  // namespace quern::env
