// A device in trouble: found out, left alone, tried again with everything made anew.
#include "env/gpu/device_care.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "env/judge/device_turn.hpp"

namespace quern::env {
namespace {

/// What a context that is made anew may take more than the first one did.
constexpr std::uint64_t memory_slack = 1ULL << 30;
constexpr std::uint64_t tested_bytes = 256ULL << 20;
constexpr double bandwidth_floor = 1e10;  // any device of the last ten years has ten times as much
constexpr double turn_wait_s = 300;

/// Writes, reads and compares on the device.
std::optional<std::string> computes(device_context& context) {
  auto allocation = context.allocate(tested_bytes);
  if (!allocation) return allocation.error().message;
  for (const std::uint32_t word : {0x5a5a5a5aU, 0xa5a5a5a5U}) {
    context.set(allocation->address(), allocation->bytes(), word);
    context.check_pattern(allocation->address(), allocation->bytes(), word);
  }
  const auto found = context.wait();
  if (!found) return found.error().message;
  for (const device_finding& one : *found)
    if (!one.clean()) return fmt::format("{} bytes were not what had been written", one.wrong);
  const auto speed = context.bandwidth(tested_bytes);
  if (!speed) return speed.error().message;
  if (*speed < bandwidth_floor)
    return fmt::format("memory moves at {:.1f} GB/s only", *speed * 1e-9);
  return std::nullopt;
}

}  // namespace

base::expected<device_care> device_care::begin(device_owner& owner, int gpu,
                                               device_context& context) {
  device_care care(owner, gpu);
  care.watch_ = device_watch(context.facts().bus_id);
  if (!care.watch_.problem().empty())
    base::log_info("evaluator", "GPU {}: clocks and faults are not known: {}", gpu,
                   care.watch_.problem());
  care.watch_.look_for_faults(care.quarantine_, care.now());
  QUERN_TRY(care.free_at_first_, context.free_bytes());
  care.unaccounted_at_first_ = care.watch_.unaccounted_bytes();
  return care;
}

void device_care::enter(quarantine_cause cause, std::string reason) {
  quarantine_.enter(cause, std::move(reason), now());
}

base::status device_care::take_up() {
  if (!owner_->context().lost_cuda_context()) return {};
  base::log_info("evaluator", "GPU {}: another lane's self-test ended the CUDA context: a new one",
                 gpu_);
  owner_->take_down();
  auto context = device_context::open(gpu_);
  if (!context) {
    // Nothing is there any more for an evaluation: a self-test comes first.
    quarantine_.enter(quarantine_cause::context, context.error().message, now());
    return tl::make_unexpected(context.error());
  }
  owner_->set_up(std::move(*context));
  return {};
}

std::optional<std::string> device_care::self_test() {
  owner_->take_down();
  if (auto ended = device_context::end_cuda_context(gpu_); !ended) return ended.error().message;
  auto context = device_context::open(gpu_);
  if (!context) return context.error().message;
  const auto free = (*context)->free_bytes();
  if (!free) return free.error().message;
  auto problem = computes(**context);
  if (!problem) problem = memory_is_back(*free);
  owner_->set_up(std::move(*context));
  if (problem) return problem;
  if (auto fails = owner_->try_out()) return fails;
  device_quarantine seen;
  watch_.look_for_faults(seen, now());
  if (seen.entry()) return seen.entry()->reason;
  return std::nullopt;
}

std::optional<std::string> device_care::memory_is_back(std::uint64_t free_now) {
  // Where the driver names everybody on the device, what others use is theirs to use.
  const auto in_use = watch_.unaccounted_bytes();
  const std::uint64_t missing = in_use && unaccounted_at_first_
                                    ? *in_use - std::min(*in_use, *unaccounted_at_first_)
                                    : free_at_first_ - std::min(free_now, free_at_first_);
  if (missing <= memory_slack) return std::nullopt;
  return fmt::format("{} MiB of device memory are missing{}", missing >> 20,
                     in_use ? "" : ", or in use by others");
}

void device_care::look_after(verdict& v, runner::cause why) {
  // Whoever says so may lie: what the driver knows of the device counts.
  if (v.kind == verdict_kind::runtime_error && why == runner::cause::hardware) {
    watch_.look_for_faults(quarantine_, now());
    if (const auto& out = quarantine_.entry(); out && out->cause == quarantine_cause::hardware) {
      v.kind = verdict_kind::infra_error;
      v.detail = fmt::format("{} ({})", out->reason, v.detail);
      return;
    }
  }
  if (v.kind != verdict_kind::infra_error) {
    quarantine_.worked();
    return;
  }
  watch_.look_for_faults(quarantine_, now());
  auto turn = device_turn::open(watch_.bus_id());
  if (!turn || !turn->wait(turn_wait_s)) return;
  if (!take_up()) return;
  // An error of the context stays with it: everything on the device is made anew.
  if (auto broken = computes(owner_->context())) {
    base::log_warn("evaluator", "GPU {}: {}; making a new context", gpu_, *broken);
    if (auto again = self_test())
      quarantine_.enter(quarantine_cause::context,
                        fmt::format("{}; with a new context: {}", *broken, *again), now());
  }
  quarantine_.failed(v.task, v.detail, now());
  if (const auto& out = quarantine_.entry())
    base::log_error("evaluator", "GPU {} is in quarantine ({}): {}", gpu_, name_of(out->cause),
                    out->reason);
}

std::optional<device_trouble> device_care::trouble() const {
  const auto& out = quarantine_.entry();
  if (!out) return std::nullopt;
  return device_trouble{fmt::format("{}: {}", name_of(out->cause), out->reason), out->since};
}

void device_care::recover() {
  if (!quarantine_.test_due(now())) return;
  // Somebody else's measurement goes on undisturbed; the next call tries again.
  auto turn = device_turn::open(watch_.bus_id());
  if (!turn || !turn->try_take()) return;
  const auto problem = self_test();
  quarantine_.tested(problem, now());
  if (problem) {
    base::log_warn("evaluator", "GPU {} stays in quarantine: {}", gpu_, *problem);
  } else {
    base::log_info("evaluator", "GPU {} passed its self-test and takes work again", gpu_);
  }
}

}  // namespace quern::env
