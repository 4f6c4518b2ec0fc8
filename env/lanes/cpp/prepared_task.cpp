// Everything about a task that does not depend on the candidate.
#include "env/lanes/cpp/prepared_task.hpp"

#include <algorithm>
#include <numeric>

#include "base/random.hpp"
#include "env/tensor_task/tensor_body.hpp"

namespace quern::env {
namespace {

std::string sizes_text(const task& what, std::span<const std::int64_t> sizes) {
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : " ", tensors_of(what).size_names[i], sizes[i]);
  return text;
}

std::string distributions_text(std::span<const distribution> kinds) {
  std::string text;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (i == 0 || kinds[i] != kinds[i - 1])
      text += fmt::format("{}{}", i == 0 ? "" : "/", name_of(kinds[i]));
  return text;
}

base::expected<std::vector<tensor_bytes>> draw_inputs(const task_instance& instance,
                                                      std::span<const distribution> kinds,
                                                      std::uint64_t seed, std::uint32_t round) {
  std::vector<tensor_bytes> inputs;
  for (std::size_t i = 0; i < instance.inputs.size(); ++i) {
    const auto& layout = instance.inputs[i];
    tensor_bytes content(static_cast<std::size_t>(layout.bytes));
    QUERN_CHECK(
        fill_input(layout, kinds[i], {seed, static_cast<std::uint32_t>(i), round}, content));
    inputs.push_back(std::move(content));
  }
  return inputs;
}

base::status add_case(expected_size& size, std::string name, std::vector<tensor_bytes> inputs,
                      reference_runner& reference) {
  auto want = reference.run(size.instance, inputs, false);
  if (!want) return base::in_context(name, want.error());
  size.cases.push_back({std::move(name), std::move(inputs), std::move(*want)});
  return {};
}

/// Rounds of content that hidden rounds at the timed sizes have; those of hidden sizes are below.
constexpr std::uint32_t first_timed_round = 1u << 24;

base::status add_timed_round(prepared_task& to, reference_runner& reference, int round,
                             std::uint64_t input_seed) {
  const auto kinds = hidden_distributions(*to.subject, round);
  QUERN_TRY(auto inputs, draw_inputs(to.timed.instance, kinds, input_seed,
                                     first_timed_round + static_cast<std::uint32_t>(round)));
  QUERN_CHECK(add_case(to.timed,
                       fmt::format("{}, {}", sizes_text(*to.subject, tensors_of(*to.subject).sizes),
                                   distributions_text(kinds)),
                       std::move(inputs), reference));
  to.timed_rounds.push_back(round);
  return {};
}

base::status check_memory_for(const task& subject) {
  QUERN_TRY(const auto timed, instantiate(subject, tensors_of(subject).sizes));
  std::int64_t kept = 2 * bytes_of_call(timed);  // its own content and at least one hidden round
  for (const auto& sizes : tensors_of(subject).hidden_sizes) {
    QUERN_TRY(const auto at, instantiate(subject, sizes));
    kept += (hidden_rounds(subject) + 1) * bytes_of_call(at);
  }
  if (const auto room = check_room(timed, kept, base::own_host_memory()); !room)
    return base::in_context(subject.name, room.error());
  return {};
}

}  // namespace

base::expected<std::unique_ptr<prepared_task>> prepare_task(std::shared_ptr<const task> subject,
                                                            reference_service& service, int core,
                                                            std::uint64_t input_seed,
                                                            const machine_peak& peak) {
  QUERN_CHECK(validate(*subject));
  QUERN_CHECK(check_memory_for(*subject));
  auto prepared = std::make_unique<prepared_task>();
  prepared->subject = subject;
  prepared->id = task_id(*subject);
  QUERN_TRY(auto reference, service.open(subject->reference, core));
  prepared->reference_layers = reference.layers();

  const int rounds = hidden_rounds(*subject);
  std::uint32_t round_id = 1;  // 0 is the timed content
  for (const auto& sizes : tensors_of(*subject).hidden_sizes) {
    expected_size size;
    QUERN_TRY(size.instance, instantiate(*subject, sizes));
    for (int r = 0; r < rounds; ++r) {
      const auto kinds = hidden_distributions(*subject, r);
      QUERN_TRY(auto inputs, draw_inputs(size.instance, kinds, input_seed, round_id++));
      QUERN_CHECK(add_case(
          size, fmt::format("{}, {}", sizes_text(*subject, sizes), distributions_text(kinds)),
          std::move(inputs), reference));
    }
    auto changed = size.cases.front().inputs;
    change_one_element(size.instance, changed, input_seed + round_id);
    QUERN_CHECK(add_case(size, fmt::format("{}, one element changed", size.cases.front().name),
                         std::move(changed), reference));
    prepared->bytes += bytes_of(size);
    prepared->hidden.push_back(std::move(size));
  }
  QUERN_TRY(prepared->timed.instance, instantiate(*subject, tensors_of(*subject).sizes));
  const auto timed_kinds = timed_distributions(*subject);
  for (const auto kind : timed_kinds)
    prepared->timed_content.push_back(
        {kind, {input_seed, static_cast<std::uint32_t>(prepared->timed_content.size()), 0}});
  QUERN_TRY(auto inputs, draw_inputs(prepared->timed.instance, timed_kinds, input_seed, 0));
  QUERN_CHECK(add_case(prepared->timed,
                       fmt::format("{}, timed", sizes_text(*subject, tensors_of(*subject).sizes)),
                       std::move(inputs), reference));
  const std::size_t each = std::max<std::size_t>(bytes_of(prepared->timed), 1);
  std::vector<int> all(static_cast<std::size_t>(rounds));
  std::iota(all.begin(), all.end(), 0);
  base::random_stream order(input_seed, "timed rounds");
  while (!all.empty() && (prepared->timed_rounds.empty() ||
                          (prepared->timed_rounds.size() + 1) * each <= most_timed_bytes)) {
    const auto next = all.begin() + static_cast<std::ptrdiff_t>(order.below(all.size()));
    QUERN_CHECK(add_timed_round(*prepared, reference, *next, input_seed));
    all.erase(next);
  }
  prepared->bytes += bytes_of(prepared->timed);
  prepared->floor_ns = roofline_floor_ns(prepared->timed.instance, peak);
  return prepared;
}

std::optional<int> missing_timed_round(const prepared_task& of, std::uint64_t input_seed,
                                       std::uint64_t ordinal) {
  base::random_stream random(input_seed, "missing round", {ordinal});
  const auto round =
      static_cast<int>(random.below(static_cast<std::uint64_t>(hidden_rounds(*of.subject))));
  const auto& kept = of.timed_rounds;
  if (std::find(kept.begin(), kept.end(), round) != kept.end()) return std::nullopt;
  return round;
}

base::status replace_timed_round(prepared_task& of, reference_runner& reference, int round,
                                 std::uint64_t input_seed, std::uint64_t ordinal) {
  QUERN_CHECK(add_timed_round(of, reference, round, input_seed));
  const auto out = static_cast<std::ptrdiff_t>(ordinal % (of.timed_rounds.size() - 1));
  of.timed_rounds.erase(of.timed_rounds.begin() + out);
  of.timed.cases.erase(of.timed.cases.begin() + 1 + out);
  return {};
}

}  // namespace quern::env
