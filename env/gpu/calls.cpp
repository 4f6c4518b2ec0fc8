// Calls of one task instance as runners are told of them.
#include "env/gpu/calls.hpp"

#include <algorithm>

#include "env/gpu/check_layer.hpp"
#include "env/tensor_task/check.hpp"

namespace quern::env {
namespace {

std::string names_of_round(std::span<const distribution> kinds) {
  std::string text;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (i == 0 || kinds[i] != kinds[i - 1])
      text += fmt::format("{}{}", i == 0 ? "" : "/", name_of(kinds[i]));
  return text;
}

/// One element in so many of another distribution costs no kernel time that shows.
constexpr std::int64_t sparse_of = 4096;

/// Content with one value over and over. Adding up equal terms one by one rounds the same way each
/// time, 9e-5 of the sum for some thousand of them (tests/env/gpu/plant_test.cpp); alone this stays
/// hidden (all terms are 0 or 1, or the tolerance knows it), but a planted element scales them or
/// cancels what they add up to, and shows as wrong what is only rounding.
bool repeats_values(std::int32_t kind) {
  return kind == QUERN_CONSTANT || kind == QUERN_SPARSE;
}

constexpr std::uint64_t words_of(std::int64_t bytes) {
  return (static_cast<std::uint64_t>(bytes) + 3) / 4 * 4;
}

}  // namespace

lent_bytes device_instance::needs(std::int64_t slots, std::uint64_t workspace_bytes) const {
  return {inputs.stride(), outputs.stride() * static_cast<std::uint64_t>(slots),
          guarded_workspace_bytes(workspace_bytes)};
}

base::expected<device_instance> make_device_instance(const task& what,
                                                     std::span<const std::int64_t> sizes) {
  device_instance d;
  QUERN_TRY(d.at, instantiate(what, {sizes.begin(), sizes.end()}));
  if (d.at.inputs.size() > QUERN_MOST_TENSORS || d.at.outputs.size() > QUERN_MOST_TENSORS)
    return base::fail(base::errc::invalid_argument, "{} inputs and {} outputs, the limit is {}",
                      d.at.inputs.size(), d.at.outputs.size(), int{QUERN_MOST_TENSORS});
  d.inputs = slot_layout(d.at.inputs);
  d.outputs = slot_layout(d.at.outputs);
  auto& t = d.tensors;
  t.inputs = static_cast<std::int32_t>(d.at.inputs.size());
  t.outputs = static_cast<std::int32_t>(d.at.outputs.size());
  for (std::size_t i = 0; i < d.at.inputs.size(); ++i) {
    t.content[i] = content_of(d.at.inputs[i], distribution::normal, 0, 0);
    t.input_offset[i] = d.inputs.offset(i);
  }
  for (std::size_t o = 0; o < d.at.outputs.size(); ++o) {
    t.output_offset[o] = d.outputs.offset(o);
    t.output_bytes[o] = is_on(check_layer::poison) ? words_of(d.at.outputs[o].bytes) : 0;
  }
  t.output_stride = d.outputs.stride();
  t.workspace_offset = workspace_offset;
  const int hidden = std::min(hidden_rounds(what), QUERN_MOST_ROUNDS - 1);
  for (int r = 0; r <= hidden; ++r) {
    const auto kinds = r == 0 ? timed_distributions(what) : hidden_distributions(what, r - 1);
    for (std::size_t i = 0; i < kinds.size(); ++i)
      t.kinds[r][i] = static_cast<std::int32_t>(kinds[i]);
    d.rounds.push_back(names_of_round(kinds));
  }
  return d;
}

runner::gpu_call_request call_request(const device_instance& of, bool has_workspace) {
  runner::gpu_call_request r;
  r.inputs = static_cast<std::uint32_t>(of.at.inputs.size());
  r.outputs = static_cast<std::uint32_t>(of.at.outputs.size());
  r.sizes = static_cast<std::uint32_t>(of.at.sizes.size());
  std::copy(of.at.sizes.begin(), of.at.sizes.end(), r.size_values.begin());
  r.has_workspace = has_workspace ? 1 : 0;
  r.workspace_offset = workspace_offset;
  const auto place = [&](const tensor_layout& layout, std::uint32_t region, std::uint64_t offset,
                         std::uint64_t stride) {
    runner::tensor_place p;
    p.file = region;
    p.type = static_cast<std::uint32_t>(layout.type);
    p.offset = offset;
    p.stride = stride;
    p.rank = static_cast<std::uint32_t>(layout.shape.size());
    std::copy(layout.shape.begin(), layout.shape.end(), p.shape.begin());
    return p;
  };
  std::size_t n = 0;
  for (std::size_t i = 0; i < of.at.inputs.size(); ++i)
    r.tensors[n++] = place(of.at.inputs[i], QUERN_INPUTS, of.inputs.offset(i), 0);
  for (std::size_t o = 0; o < of.at.outputs.size(); ++o)
    r.tensors[n++] =
        place(of.at.outputs[o], QUERN_OUTPUTS, of.outputs.offset(o), of.outputs.stride());
  return r;
}

std::uint32_t order_maker::poison() {
  // Half of them NaN in f32, bf16 and f16; the others finite; none of them known.
  const std::uint32_t word = random_.next_u32();
  return random_.chance(0.5) ? word | 0x7FC07FC0 : word & 0xBFFFBFFF;
}

quern_order order_maker::fresh(std::int32_t round, std::int32_t slot) {
  quern_order o{};
  const bool anew = is_on(check_layer::content);
  o.key = anew ? random_.next_u64() : 1;
  o.stream = anew ? random_.next_u64() : 1;
  o.round = anew ? round : 0;
  o.slot = slot;
  o.changed_input = -1;
  o.poison = poison();
  return o;
}

quern_order order_maker::again(const quern_order& other, std::int32_t slot) {
  quern_order o = other;
  o.slot = slot;
  o.poison = poison();
  return o;
}

quern_order order_maker::changed(const quern_order& other, const device_instance& of,
                                 std::int32_t slot) {
  quern_order o = again(other, slot);
  if (of.at.inputs.empty() || !is_on(check_layer::content)) return o;
  o.changed_input = static_cast<std::int32_t>(random_.below(of.at.inputs.size()));
  const auto& layout = of.at.inputs[static_cast<std::size_t>(o.changed_input)];
  o.changed_kind = of.tensors.kinds[o.round][o.changed_input];
  o.changed_first =
      static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(layout.elements)));
  o.changed_count = o.changed_run = o.changed_stride = 1;
  o.changed_stream = random_.next_u64();
  return o;
}

bool counts_in_time(const quern_order& order, const device_instance& of) {
  if (order.round != 0) return false;
  if (order.changed_input < 0 || order.changed_count <= 1) return true;
  const auto elements = of.at.inputs[static_cast<std::size_t>(order.changed_input)].elements;
  return order.changed_count <= elements / sparse_of;
}

tolerance limit_of(const quern_order& order, const device_instance& of, const tolerance& limit) {
  constexpr double widest = 64, most_rtol = 0.05;
  if (order.changed_input < 0 ||
      order.changed_kind == of.tensors.kinds[order.round][order.changed_input])
    return limit;
  // What is loose already, as for bf16, is not made void.
  const double wider = limit.rtol > 0 ? std::clamp(most_rtol / limit.rtol, 1.0, widest) : widest;
  return {wider * limit.atol, wider * limit.rtol};
}

void order_maker::plant(quern_order& order, const device_instance& of, double stretches) {
  if (of.at.inputs.empty() || !is_on(check_layer::content)) return;
  const std::int32_t input = input_to_plant(of);
  const std::int32_t kind = kind_to_plant(of, order.round, input);
  if (kind < 0) return;
  const std::int64_t elements = of.at.inputs[static_cast<std::size_t>(input)].elements;
  const auto power = [&](std::uint64_t below) {
    return std::int64_t{1} << static_cast<int>(random_.below(below));
  };
  std::int64_t run = 1, runs = 0;
  if (random_.chance(1 - stretches)) {
    runs = std::clamp<std::int64_t>(elements / sparse_of, 1, power(11));
  } else {
    // Long ones most of all: what counts or adds up in too few bits shows in no short one.
    const std::int64_t most = std::max<std::int64_t>(1, elements / 4);
    runs = std::min(most, power(7));
    run = std::max<std::int64_t>(1, most / runs / power(6));
  }
  // Anywhere between side by side and spread over all of the input.
  std::int64_t stride = run;
  if (runs > 1) {
    const std::int64_t widest = (elements - run) / (runs - 1);
    stride = run +
             static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(widest - run + 1)));
  }
  const std::int64_t span = (runs - 1) * stride + run;
  order.changed_input = input;
  order.changed_kind = kind;
  order.changed_stream = random_.next_u64();
  order.changed_run = run;
  order.changed_stride = stride;
  order.changed_count = runs * run;
  order.changed_first =
      static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(elements - span + 1)));
}

std::int32_t order_maker::input_to_plant(const device_instance& of) {
  const auto& inputs = of.at.inputs;
  // Small inputs are seldom where a kernel leaves something out.
  if (random_.chance(0.5))
    return static_cast<std::int32_t>(
        std::max_element(inputs.begin(), inputs.end(),
                         [](const auto& a, const auto& b) { return a.elements < b.elements; }) -
        inputs.begin());
  return static_cast<std::int32_t>(random_.below(inputs.size()));
}

std::int32_t order_maker::kind_to_plant(const device_instance& of, std::int32_t round,
                                        std::int32_t input) {
  const auto background = of.tensors.kinds[round][input];
  const bool exact = !is_floating(of.at.inputs[static_cast<std::size_t>(input)].type);
  if (!exact && repeats_values(background)) return -1;
  std::vector<std::int32_t> others;
  for (std::size_t row = 0; row < of.rounds.size(); ++row) {
    const auto kind = of.tensors.kinds[row][input];
    if (kind != background && (exact || kind != QUERN_CONSTANT)) others.push_back(kind);
  }
  return others.empty() ? -1 : others[static_cast<std::size_t>(random_.below(others.size()))];
}

}  // namespace quern::env
