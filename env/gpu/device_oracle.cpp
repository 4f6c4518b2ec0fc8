// Runs and times references on a device for `quern tasks check`.
#include "env/gpu/device_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/program.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/gpu/calls.hpp"
#include "env/gpu/device_peak.hpp"
#include "env/gpu/reference_process.hpp"
#include "env/gpu/timed_windows.hpp"
#include "env/judge/device_lock.hpp"
#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

constexpr double oracle_question_s = 120;
constexpr double oracle_device_wait_s = 300;
constexpr std::uint64_t oracle_bandwidth_footprint = 1ULL << 30;
/// Calls of one timed window, and windows; the first of them warms up.
constexpr std::int32_t oracle_window_calls = 9, oracle_windows = 5;

/// What a reference's call looks like beyond its instance.
struct oracle_call {
  bool in_f64 = false;
  bool makes_inputs = true;  ///< by the orders; else they stay as they are
  bool delivers = true;
  std::uint64_t behind = 0;  ///< bytes of the region of outputs before this call's
};

/// The instance with floating outputs as f64.
device_instance widened_outputs(const device_instance& of) {
  device_instance wide = of;
  for (auto& output : wide.at.outputs) {
    if (!is_floating(output.type)) continue;
    output.type = dtype::f64;
    output.bytes = output.elements * 8;
  }
  wide.outputs = slot_layout(wide.at.outputs);
  for (std::size_t o = 0; o < wide.at.outputs.size(); ++o) {
    wide.tensors.output_offset[o] = wide.outputs.offset(o);
    wide.tensors.output_bytes[o] =
        (static_cast<std::uint64_t>(wide.at.outputs[o].bytes) + 3) & ~3ULL;
  }
  wide.tensors.output_stride = wide.outputs.stride();
  return wide;
}

class device_oracle final : public reference_oracle {
 public:
  explicit device_oracle(evaluator_options options) : options_(std::move(options)) {}

  base::status open();

  base::expected<std::vector<tensor_bytes>> run(const task& what, const task_instance& at,
                                                std::span<const tensor_bytes> inputs,
                                                bool in_f64) override;
  base::expected<std::int64_t> time_baseline(const task& what, const task_instance& at,
                                             std::span<const tensor_bytes> inputs) override;
  [[nodiscard]] bool makes_content() const override { return true; }
  base::expected<std::vector<output_judgement>> judge_case(const task& what,
                                                           const task_instance& at, int round,
                                                           std::uint64_t seed) override;
  machine_peak peak(const task_instance& at) override;

 private:
  base::expected<device_lock> take_device() const;
  base::expected<gpu_link*> reference_of(const task& what);
  base::expected<window_times> perform(const task& what, const device_instance& of,
                                       const oracle_call& how, std::span<const quern_order> orders,
                                       std::int32_t slots);
  base::expected<double> worst_error(std::uint64_t got, std::uint64_t want,
                                     const tensor_layout& layout, const tolerance& limit);

  evaluator_options options_;
  std::unique_ptr<spawner> children_;
  std::unique_ptr<device_context> context_;
  std::optional<lent_memory> memory_;
  gpu_reference_start start_;
  std::unique_ptr<gpu_reference_process> process_;
  std::string script_of_;  ///< id of the task whose script the process has
  double bandwidth_ = 0;
};

base::status device_oracle::open() {
  if (!has_nvidia_driver())
    return base::fail(base::errc::unavailable,
                      "tasks of a lane on a GPU are checked on an NVIDIA GPU: no driver is loaded "
                      "(/dev/nvidiactl is not there); quern doctor tells more");
  if (options_.reference_program.empty()) {
    QUERN_TRY(options_.reference_program, base::sibling_program("quern-torch"));
  }
  const auto mode = options_.sandbox_required ? sandbox_mode::required : sandbox_mode::best_effort;
  QUERN_CHECK(admit(probe_host(), mode, sandboxed_code::on_gpu));
  QUERN_TRY(children_, spawner::create(mode));
  QUERN_TRY(context_, device_context::open(options_.gpu));
  memory_.emplace(*context_, 1, 1);
  start_.program = options_.reference_program;
  start_.library = base::program_folder() / "libquern_cuda.so";
  QUERN_TRY(start_.access, gpu_sandbox_paths(context_->facts().bus_id));
  return {};
}

base::expected<device_lock> device_oracle::take_device() const {
  QUERN_TRY(auto lock, device_lock::open(context_->facts().bus_id, device_lock::use::busy));
  const base::steady_clock clock;
  const auto patience_ns = static_cast<base::nanoseconds_t>(oracle_device_wait_s * 1e9);
  if (!lock.take_before(clock.now_ns() + patience_ns, clock))
    return base::fail(base::errc::timeout, "the GPU was used by evaluators for {} s",
                      oracle_device_wait_s);
  return lock;
}

base::expected<gpu_link*> device_oracle::reference_of(const task& what) {
  if (!process_) {
    script_of_.clear();
    QUERN_TRY(process_, gpu_reference_process::start(*children_, start_));
  }
  const std::string id = task_id(what);
  if (script_of_ != id) {
    script_of_.clear();
    if (auto compiled = process_->link().script(what.reference); !compiled) {
      process_.reset();
      return base::fail(base::errc::invalid_argument, "reference: {}", compiled.error().text);
    }
    script_of_ = id;
  }
  return &process_->link();
}

base::expected<window_times> device_oracle::perform(const task& what, const device_instance& of,
                                                    const oracle_call& how,
                                                    std::span<const quern_order> orders,
                                                    std::int32_t slots) {
  QUERN_TRY(auto* link, reference_of(what));
  quern_tensors tensors = of.tensors;
  // A window makes what it knows of: inputs that it does not know stay.
  if (!how.makes_inputs) tensors.inputs = 0;
  auto request = call_request(of, false);
  request.in_f64 = how.in_f64 ? 1 : 0;
  for (std::size_t o = 0; o < of.at.outputs.size(); ++o) {
    tensors.output_offset[o] += how.behind;
    request.tensors[of.at.inputs.size() + o].offset += how.behind;
  }
  window_order order;
  order.calls.assign(orders.begin(), orders.end());
  order.settings = timed_window_settings(*context_);
  window_times times;
  auto told = memory_->lend(*link, 0);
  if (told) told = link->tensors(tensors, slots);
  if (told) told = link->call(request);
  if (told) {
    if (auto ran = link->window(order, oracle_question_s))
      times = std::move(*ran);
    else
      told = tl::make_unexpected(std::move(ran).error());
  }
  if (told && how.delivers) told = link->deliver(oracle_question_s);
  if (told) return times;
  // Whether it is of use after this nobody knows; references that fail are rare.
  process_.reset();
  return base::fail(base::errc::invalid_argument, "reference: {}", told.error().text);
}

base::expected<std::vector<tensor_bytes>> device_oracle::run(const task& what,
                                                             const task_instance& at,
                                                             std::span<const tensor_bytes> inputs,
                                                             bool in_f64) {
  QUERN_TRY(const auto lock, take_device());
  QUERN_TRY(auto of, make_device_instance(what, at.sizes));
  if (in_f64) of = widened_outputs(of);
  QUERN_CHECK(memory_->reserve(of.needs(1, 0)));
  for (std::size_t i = 0; i < inputs.size(); ++i)
    QUERN_CHECK(context_->write(memory_->inputs() + of.inputs.offset(i), inputs[i]));
  order_maker orders(1);
  const quern_order one[] = {orders.fresh(0, 0)};
  QUERN_TRY(const auto times, perform(what, of, {in_f64, false, true, 0}, one, 1));
  (void)times;
  std::vector<tensor_bytes> outputs;
  for (std::size_t o = 0; o < of.at.outputs.size(); ++o) {
    outputs.emplace_back(static_cast<std::size_t>(of.at.outputs[o].bytes));
    QUERN_CHECK(context_->read(outputs.back(), memory_->outputs(0) + of.outputs.offset(o)));
  }
  return outputs;
}

base::expected<std::int64_t> device_oracle::time_baseline(const task& what, const task_instance& at,
                                                          std::span<const tensor_bytes>) {
  if (what.baseline == baseline_kind::plain)
    return base::fail(
        base::errc::invalid_argument,
        "tasks of a lane on a GPU with a plain baseline cannot be timed here; measure "
        "against the reference, or leave the task out");
  QUERN_TRY(const auto lock, take_device());
  QUERN_TRY(const auto of, make_device_instance(what, at.sizes));
  QUERN_CHECK(memory_->reserve(of.needs(1, 0)));
  order_maker orders(2);
  std::vector<double> times;
  for (std::int32_t w = 0; w < oracle_windows; ++w) {
    std::vector<quern_order> calls;
    for (std::int32_t c = 0; c < oracle_window_calls; ++c)
      calls.push_back(orders.fresh(0, 0));
    QUERN_TRY(const auto window, perform(what, of, {false, true, false, 0}, calls, 1));
    if (w == 0) continue;
    times.insert(times.end(), window.call_ns.begin(), window.call_ns.end());
  }
  return std::llround(median_of(times));
}

base::expected<double> device_oracle::worst_error(std::uint64_t got, std::uint64_t want,
                                                  const tensor_layout& layout,
                                                  const tolerance& limit) {
  // The device counts what is beyond a tolerance; many tolerances tell where the worst element is.
  const auto least_clean = [&](const std::vector<double>& scales) -> base::expected<std::size_t> {
    for (const double s : scales)
      context_->compare(got, want, layout, {s * limit.atol, s * limit.rtol},
                        is_floating(layout.type));
    QUERN_TRY(const auto found, context_->wait());
    std::size_t i = 0;
    while (i < found.size() && !found[i].clean())
      ++i;
    return i;
  };
  constexpr double smallest = 1e-4, largest = 1e4;
  constexpr int coarse_steps = 64, fine_steps = 32;
  std::vector<double> scales{0};
  for (int i = 0; i < coarse_steps; ++i)
    scales.push_back(smallest * std::pow(largest / smallest, i / (coarse_steps - 1.0)));
  QUERN_TRY(const auto coarse, least_clean(scales));
  if (coarse == 0) return 0.0;
  if (coarse == scales.size()) return std::numeric_limits<double>::infinity();
  const double low = scales[coarse - 1], high = scales[coarse];
  std::vector<double> between;
  for (int i = 1; i <= fine_steps; ++i)
    between.push_back(low + (high - low) * i / fine_steps);
  QUERN_TRY(const auto fine, least_clean(between));
  return fine < between.size() ? between[fine] : high;
}

base::expected<std::vector<output_judgement>> device_oracle::judge_case(const task& what,
                                                                        const task_instance& at,
                                                                        int round,
                                                                        std::uint64_t seed) {
  QUERN_TRY(const auto lock, take_device());
  QUERN_TRY(const auto of, make_device_instance(what, at.sizes));
  if (static_cast<std::size_t>(round) >= of.rounds.size())
    return base::fail(base::errc::invalid_argument, "more than {} rounds of content",
                      of.rounds.size());
  const auto wide = widened_outputs(of);
  const std::uint64_t behind = 2 * of.outputs.stride();
  QUERN_CHECK(memory_->reserve({of.inputs.stride(), behind + wide.outputs.stride(), 1}));
  order_maker orders(seed + static_cast<std::uint64_t>(round));
  const auto first = orders.fresh(round, 0);
  const quern_order twice[] = {first, orders.again(first, 1)};
  QUERN_TRY(const auto narrow_times, perform(what, of, {false, true, true, 0}, twice, 2));
  QUERN_TRY(const auto wide_times,
            perform(what, wide, {true, true, true, behind}, std::span(twice).first(1), 1));
  (void)narrow_times, (void)wide_times;
  const slot_view got(memory_->outputs(0), of.at.outputs, 2);
  const slot_view want(memory_->outputs(0) + behind, wide.at.outputs, 1);
  std::vector<output_judgement> result;
  for (std::size_t o = 0; o < of.at.outputs.size(); ++o) {
    const auto& layout = of.at.outputs[o];
    output_judgement one;
    QUERN_TRY(one.worst_error, worst_error(got.at(o, 0), want.at(o, 0), layout, what.tolerance));
    context_->same_bits(got.at(o, 0), got.at(o, 1), layout);
    // What is infinite or NaN is farther from 0 than any finite number. The f64 result has served.
    context_->set(want.at(o, 0), (static_cast<std::uint64_t>(layout.bytes) + 3) & ~3ULL, 0);
    context_->compare(got.at(o, 0), want.at(o, 0), layout,
                      {is_floating(layout.type) ? std::numeric_limits<double>::max() : 0, 0});
    QUERN_TRY(const auto found, context_->wait());
    one.repeats = found[0].clean();
    one.finite = !is_floating(layout.type) || found[1].clean();
    result.push_back(one);
  }
  return result;
}

machine_peak device_oracle::peak(const task_instance& at) {
  if (bandwidth_ == 0)
    if (const auto measured = context_->bandwidth(oracle_bandwidth_footprint))
      bandwidth_ = *measured;
  machine_peak result;
  // Unknown: no time is too short for the traffic.
  result.bytes_per_s = bandwidth_ > 0 ? bandwidth_ : std::numeric_limits<double>::infinity();
  result.flops_per_s = flops_at_best(context_->facts(), at);
  return result;
}

}  // namespace

base::expected<std::unique_ptr<reference_oracle>> open_device_oracle(
    const evaluator_options& options) {
  auto oracle = std::make_unique<device_oracle>(options);
  QUERN_CHECK(oracle->open());
  return oracle;
}

}  // namespace quern::env
