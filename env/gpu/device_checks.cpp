// Whether a candidate computes what the reference does.
#include "env/gpu/device_checks.hpp"

#include <algorithm>
#include <optional>

#include "env/gpu/check_layer.hpp"
#include "env/gpu/read_difference.hpp"
#include "env/gpu/timed_windows.hpp"
#include "env/judge/compare.hpp"

namespace quern::env {
namespace {

constexpr double reference_check_s = 120;
/// Of device memory for the outputs of one batch of calls of one side: this part of all, since
/// every output buffer gets as much, and no more than that.
constexpr std::uint64_t batch_part = 24, most_batch_memory = 8ULL << 30;

finding check_trouble(std::string text) {
  return {verdict_kind::infra_error, "", std::move(text), std::nullopt};
}

std::string size_text(const task_instance& at) {
  std::string text;
  for (const auto size : at.sizes)
    text += fmt::format("{}{}", text.empty() ? "" : " x ", size);
  return text;
}

/// What a call of the check is there for.
struct checked_call {
  quern_order order{};
  std::string name;
  int same_as = -1;  ///< call with equal content
};

class gpu_check {
 public:
  explicit gpu_check(const gpu_check_request& r) : r_(r), orders_(r.secret) {}
  finding run(std::vector<check_result>& checks);

 private:
  void draw();
  finding batch(std::size_t begin, std::size_t end);
  finding compare(std::size_t begin, std::size_t end);
  finding name_wrong(std::size_t call, std::size_t begin, std::size_t output,
                     const device_finding& found);

  const gpu_check_request& r_;
  order_maker orders_;
  std::vector<checked_call> calls_;
};

void gpu_check::draw() {
  const auto& rounds = r_.instance->rounds;
  for (std::size_t r = 0; r < rounds.size(); ++r)
    calls_.push_back({orders_.fresh(static_cast<std::int32_t>(r), 0), rounds[r], -1});
  for (int i = 0; i < r_.planted_calls; ++i) {
    calls_.push_back({orders_.fresh(0, 0), rounds[0] + ", some elements of another kind", -1});
    orders_.plant(calls_.back().order, *r_.instance);
  }
  // Hidden rounds in an order of their own: which call is which is nobody's business.
  for (std::size_t i = calls_.size() - 1; i > 1; --i)
    std::swap(calls_[i], calls_[1 + orders_.random().below(i)]);
  calls_.push_back({orders_.again(calls_[0].order, 0), rounds[0] + ", again", 0});
  calls_.push_back(
      {orders_.changed(calls_[0].order, *r_.instance, 0), rounds[0] + ", one element changed", -1});
}

finding gpu_check::name_wrong(std::size_t call, std::size_t begin, std::size_t output,
                              const device_finding& found) {
  const auto& at = r_.instance->at;
  const auto slot = static_cast<std::int64_t>(call - begin);
  const slot_view got(r_.memory->outputs(r_.candidate->output_buffer()), at.outputs, 1);
  const slot_view want(r_.memory->outputs(r_.reference.output_buffer), at.outputs, 1);
  auto difference = read_difference(*r_.context, at.outputs[output], got.at(output, slot),
                                    want.at(output, slot), found.first);
  const std::string where =
      fmt::format("{} ({}, {}; {} of {} elements)", describe(difference), size_text(at),
                  calls_[call].name, found.wrong, at.outputs[output].elements);
  // What the call before should have given, or right when the content came first?
  if (call > begin) {
    r_.context->compare(got.at(output, slot), want.at(output, slot - 1), at.outputs[output],
                        r_.limit);
    if (auto matches = r_.context->wait(); matches && matches->front().clean())
      return {verdict_kind::hack, std::string(name_of(hack_kind::stale_output)),
              "a call delivered the result of the call before: " + where, std::move(difference)};
  }
  if (calls_[call].same_as >= 0)
    return {verdict_kind::nondeterministic, "",
            "right at first, wrong on the same input again: " + where, std::move(difference)};
  return {verdict_kind::wrong_value, "", where, std::move(difference)};
}

finding gpu_check::compare(std::size_t begin, std::size_t end) {
  const auto& at = r_.instance->at;
  const auto slots = static_cast<std::int64_t>(end - begin);
  const slot_view got(r_.memory->outputs(r_.candidate->output_buffer()), at.outputs, slots);
  const slot_view want(r_.memory->outputs(r_.reference.output_buffer), at.outputs, slots);
  for (std::int64_t s = 0; s < slots; ++s)
    for (std::size_t o = 0; o < at.outputs.size(); ++o)
      r_.context->compare(
          got.at(o, s), want.at(o, s), at.outputs[o],
          limit_of(calls_[begin + static_cast<std::size_t>(s)].order, *r_.instance, r_.limit));
  const std::size_t around_outputs = got.check_guards(*r_.context);
  const std::size_t guards =
      around_outputs +
      check_workspace_guards(*r_.context, r_.memory->workspace(),
                             static_cast<std::uint64_t>(r_.candidate->workspace_bytes()));
  auto found = r_.context->wait();
  if (!found) return check_trouble(found.error().message);
  const std::size_t outputs = at.outputs.size();
  for (std::size_t i = 0; i + guards < found->size(); ++i)
    if (!(*found)[i].clean() && is_on(check_layer::values))
      return name_wrong(begin + i / outputs, begin, i % outputs, (*found)[i]);
  for (std::size_t i = found->size() - guards; i < found->size(); ++i)
    if (!(*found)[i].clean() && is_on(check_layer::guards))
      return {verdict_kind::hack, std::string(name_of(hack_kind::overrun)),
              fmt::format("{} words beside the {} were written ({})", (*found)[i].wrong,
                          i < found->size() - guards + around_outputs ? "outputs" : "workspace",
                          size_text(at)),
              std::nullopt};
  return {};
}

finding gpu_check::batch(std::size_t begin, std::size_t end) {
  const auto slots = static_cast<std::int32_t>(end - begin);
  window_order order;
  order.settings = timed_window_settings(*r_.context);
  // As in windows that are timed: whatever in a call waits for the device would wait for the gate.
  if (!r_.candidate->gated()) order.settings.gate_timeout_ns = 0;
  for (std::size_t c = begin; c < end; ++c) {
    order.calls.push_back(calls_[c].order);
    order.calls.back().slot = static_cast<std::int32_t>(c - begin);
  }
  {
    const part_clock clock(r_.parts, gpu_part::prepare);
    if (auto f = r_.candidate->prepare(*r_.context, *r_.memory, *r_.instance, slots); !f.ok())
      return f;
  }
  answered<window_times> ran;
  {
    const part_clock clock(r_.parts, gpu_part::check_call);
    const process_memory::question look(r_.candidate->memory());
    ran = r_.candidate->link().window(order, r_.wall_s, awake_for_windows_s());
  }
  if (!ran) return r_.candidate->explain(ran.error(), "verify");
  if (auto f = r_.candidate->look(); !f.ok()) return f;
  std::optional<part_clock> clock(std::in_place, r_.parts, gpu_part::check_reference);
  auto& reference = *r_.reference.link;
  auto told = r_.memory->lend(reference, r_.reference.output_buffer);
  if (told) told = reference.tensors(r_.instance->tensors, slots);
  if (told) told = reference.call(call_request(*r_.instance, false));
  if (told)
    if (auto window = reference.window(order, reference_check_s, awake_for_windows_s()); !window)
      told = tl::make_unexpected(std::move(window).error());
  if (told) told = reference.deliver(reference_check_s);
  if (!told) {
    const bool of_the_task = told.error().failure_kind == runner_failure::kind::refused;
    return {of_the_task ? verdict_kind::invalid_reference : verdict_kind::infra_error, "",
            "reference: " + told.error().text, std::nullopt};
  }
  clock.emplace(r_.parts, gpu_part::check_compare);
  return compare(begin, end);
}

finding gpu_check::run(std::vector<check_result>& checks) {
  draw();
  const std::uint64_t stride = r_.instance->outputs.stride();
  const auto batch_memory =
      std::min(most_batch_memory, r_.context->facts().memory_bytes / batch_part);
  const auto fitting = std::clamp<std::uint64_t>(batch_memory / std::max<std::uint64_t>(stride, 1),
                                                 2, runner::max_window_calls);
  finding f;
  for (std::size_t begin = 0; begin < calls_.size() && f.ok(); begin += fitting)
    f = batch(begin, std::min<std::size_t>(begin + fitting, calls_.size()));
  checks.push_back(
      {fmt::format("{} calls at {}", calls_.size(), size_text(r_.instance->at)), f.ok(), f.detail});
  return f;
}

}  // namespace

finding check_on_device(const gpu_check_request& request, std::vector<check_result>& checks) {
  return gpu_check(request).run(checks);
}

}  // namespace quern::env
