// Content by a reference's own get_inputs.
#include "env/lanes/pytorch/module_content.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace quern::env {
namespace {

constexpr question_limits content_limits{60, 240};
/// Seeds of one question.
constexpr std::int64_t seeds_at_a_time = 256;

}  // namespace

base::error reference_error(const runner_failure& why) {
  using enum runner_failure::kind;
  const bool of_the_module = why.failure_kind == refused || why.failure_kind == fault;
  const bool lost = why.failure_kind != timeout || why.stopped;
  const bool for_memory = why.failure_kind == refused && why.last.why == runner::cause::memory;
  return {
      for_memory      ? base::errc::exhausted
      : of_the_module ? base::errc::invalid_argument
                      : (lost ? base::errc::unavailable : base::errc::timeout),
      fmt::format("the reference failed: {}",
                  why.failure_kind == fault
                      ? "it read or wrote memory that it may not. Inputs are read-only: does it "
                        "change them in place?"
                      : why.text)};
}

std::uint64_t module_content::seed_of(std::uint64_t call) const {
  base::random_stream numbers(key_, "content of a module", {call});
  return numbers.next_u64() >> 2;  // what Python's generators take
}

base::status module_content::open(std::int64_t slots) {
  if (inputs_ && inputs_->slots() == slots) return {};
  inputs_.reset();
  QUERN_TRY(auto inputs, tensor_arena::create(memory_use::outputs, instance_.inputs, slots));
  QUERN_TRY(auto outputs, tensor_arena::create(memory_use::outputs, instance_.outputs, 1));
  QUERN_TRY(const auto plan, make_plan(instance_, inputs, outputs));
  auto& link = process_.link();
  auto step = link.map(inputs.request(0), inputs.fd(), content_limits);
  if (step) step = link.map(outputs.request(1), outputs.fd(), content_limits);
  if (step) step = link.plan(plan, content_limits);
  if (!step) return tl::make_unexpected(reference_error(step.error()));
  inputs_.emplace(std::move(inputs));
  outputs_.emplace(std::move(outputs));
  return {};
}

base::status module_content::fill(std::uint64_t first, const tensor_arena& inputs) {
  if (instance_.inputs.empty()) return {};
  const std::int64_t slots = inputs.slots();
  QUERN_CHECK(open(slots));
  for (std::int64_t done = 0; done < slots; done += seeds_at_a_time) {
    std::vector<std::uint64_t> seeds;
    for (std::int64_t s = done; s < std::min(slots, done + seeds_at_a_time); ++s)
      seeds.push_back(seed_of(first + static_cast<std::uint64_t>(s)));
    const auto made = process_.content(done, seeds, "nominal", content_limits);
    if (!made) return tl::make_unexpected(reference_error(made.error()));
  }
  for (std::int64_t s = 0; s < slots; ++s)
    for (std::size_t i = 0; i < instance_.inputs.size(); ++i)
      std::ranges::copy(inputs_->at(i, s), inputs.at(i, s).begin());
  return {};
}

base::expected<std::vector<tensor_bytes>> module_content::draw(std::uint64_t call,
                                                               std::string_view family) {
  std::vector<tensor_bytes> drawn;
  if (instance_.inputs.empty()) return drawn;
  QUERN_CHECK(open(1));
  const std::vector<std::uint64_t> seeds{seed_of(call)};
  const auto made = process_.content(0, seeds, family, content_limits);
  if (!made) return tl::make_unexpected(reference_error(made.error()));
  for (std::size_t i = 0; i < instance_.inputs.size(); ++i) {
    const auto bytes = inputs_->at(i, 0);
    drawn.emplace_back(bytes.begin(), bytes.end());
  }
  return drawn;
}

}  // namespace quern::env
