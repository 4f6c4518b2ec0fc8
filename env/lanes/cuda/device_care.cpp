// The evaluator's device in trouble: found out, left alone, tried again with everything made anew.
#include <algorithm>

#include "base/log.hpp"
#include "base/program.hpp"
#include "env/judge/device_turn.hpp"
#include "env/lanes/cuda/cuda_state.hpp"

namespace quern::env {
namespace {

/// What a context that is made anew may take more than the first one did.
constexpr std::uint64_t memory_slack = 1ULL << 30;
constexpr std::uint64_t tested_bytes = 256ULL << 20;
constexpr double bandwidth_floor = 1e10;  // any device of the last ten years has ten times as much
constexpr double turn_wait_s = 300;

/// Writes, reads and compares on the device.
std::optional<std::string> computes(device_desk& desk) {
  auto piece = desk.allocate(tested_bytes);
  if (!piece) return piece.error().message;
  for (const std::uint32_t word : {0x5a5a5a5aU, 0xa5a5a5a5U}) {
    desk.set(piece->address(), piece->bytes(), word);
    desk.check_pattern(piece->address(), piece->bytes(), word);
  }
  const auto found = desk.wait();
  if (!found) return found.error().message;
  for (const device_finding& one : *found)
    if (!one.clean()) return fmt::format("{} bytes were not what had been written", one.wrong);
  const auto speed = desk.bandwidth(tested_bytes);
  if (!speed) return speed.error().message;
  if (*speed < bandwidth_floor)
    return fmt::format("memory moves at {:.1f} GB/s only", *speed * 1e-9);
  return std::nullopt;
}

}  // namespace

void cuda_evaluator::state::make_stand(std::unique_ptr<device_desk> desk) {
  stand = std::make_unique<cuda_stand>(*children, options, access, std::move(desk),
                                       base::program_folder() / "libquern_cuda.so", secret, &parts);
}

std::optional<std::string> cuda_evaluator::state::self_test() {
  stand.reset();
  for (std::size_t i = 0; compiled && i < compiled_references::count; ++i)
    compiled->retire(i);
  if (auto ended = device_desk::end_context(options.gpu); !ended) return ended.error().message;
  auto desk = device_desk::open(options.gpu);
  if (!desk) return desk.error().message;
  const auto free = (*desk)->free_bytes();
  if (!free) return free.error().message;
  auto problem = computes(**desk);
  if (!problem) problem = memory_is_back(*free);
  make_stand(std::move(*desk));
  if (problem) return problem;
  if (auto runner = stand->resident(0); !runner) return runner.error().message;
  device_quarantine now;
  watch.look_for_faults(now, clock.now_ns());
  if (now.entry()) return now.entry()->reason;
  return std::nullopt;
}

std::optional<std::string> cuda_evaluator::state::memory_is_back(std::uint64_t free_now) {
  // Where the driver names everybody on the device, what others use is theirs to use.
  const auto now = watch.unaccounted_bytes();
  const std::uint64_t missing = now && unaccounted_at_first
                                    ? *now - std::min(*now, *unaccounted_at_first)
                                    : free_at_first - std::min(free_now, free_at_first);
  if (missing <= memory_slack) return std::nullopt;
  return fmt::format("{} MiB of device memory are missing{}", missing >> 20,
                     now ? "" : ", or in use by others");
}

void cuda_evaluator::state::look_after(verdict& v, runner::cause why) {
  // Whoever says so may lie: what the driver knows of the device counts.
  if (v.kind == verdict_kind::runtime_error && why == runner::cause::hardware) {
    watch.look_for_faults(quarantine, clock.now_ns());
    if (const auto& out = quarantine.entry(); out && out->cause == quarantine_cause::hardware) {
      v.kind = verdict_kind::infra_error;
      v.detail = fmt::format("{} ({})", out->reason, v.detail);
      return;
    }
  }
  if (v.kind != verdict_kind::infra_error) {
    quarantine.worked();
    return;
  }
  watch.look_for_faults(quarantine, clock.now_ns());
  auto turn = device_turn::open(watch.bus_id());
  if (!turn || !turn->wait(turn_wait_s)) return;
  // An error of the context stays with it: everything on the device is made anew.
  if (auto broken = computes(stand->desk())) {
    base::log_warn("evaluator", "GPU {}: {}; making a new context", options.gpu, *broken);
    if (auto again = self_test())
      quarantine.enter(quarantine_cause::context,
                       fmt::format("{}; with a new context: {}", *broken, *again), clock.now_ns());
  }
  quarantine.failed(v.task, v.detail, clock.now_ns());
  if (const auto& out = quarantine.entry())
    base::log_error("evaluator", "GPU {} is in quarantine ({}): {}", options.gpu,
                    name_of(out->cause), out->reason);
}

std::optional<device_trouble> cuda_evaluator::trouble() const {
  const auto& out = state_->quarantine.entry();
  if (!out) return std::nullopt;
  return device_trouble{fmt::format("{}: {}", name_of(out->cause), out->reason), out->since};
}

void cuda_evaluator::recover() {
  auto& s = *state_;
  if (!s.quarantine.test_due(s.clock.now_ns())) return;
  // Somebody else's measurement goes on undisturbed; the next call tries again.
  auto turn = device_turn::open(s.watch.bus_id());
  if (!turn || !turn->try_take()) return;
  const auto problem = s.self_test();
  s.quarantine.tested(problem, s.clock.now_ns());
  if (problem) {
    base::log_warn("evaluator", "GPU {} stays in quarantine: {}", s.options.gpu, *problem);
  } else {
    base::log_info("evaluator", "GPU {} passed its self-test and takes work again", s.options.gpu);
  }
}

}  // namespace quern::env
