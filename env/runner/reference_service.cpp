// The evaluator's side of `quern-torch reference`.
#include "env/runner/reference_service.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"

namespace quern::env {
namespace {

constexpr question_limits script_limits{20, 120};
constexpr question_limits run_limits{30, 120};

base::errc code_of(const runner_failure& f) {
  using enum runner_failure::kind;
  if (f.failure_kind == refused || f.failure_kind == fault) return base::errc::invalid_argument;
  // One that somebody stopped is as good as gone.
  return f.failure_kind == timeout && !f.stopped ? base::errc::timeout : base::errc::unavailable;
}

base::error as_error(const runner_failure& f) {
  return {code_of(f), fmt::format("the reference failed: {}", f.text)};
}

/// The tensors as the reference delivers them: floating ones as f64.
std::vector<tensor_layout> widened(std::span<const tensor_layout> tensors) {
  std::vector<tensor_layout> result(tensors.begin(), tensors.end());
  for (auto& t : result)
    if (is_floating(t.type)) {
      t.type = dtype::f64;
      t.bytes = t.elements * 8;
    }
  return result;
}

}  // namespace

base::expected<std::unique_ptr<reference_service>> reference_service::start(
    const std::filesystem::path& program, sandbox_mode mode) {
  // One thread, whatever the environment says: a process with a thread pool cannot be forked.
  auto parent = warm_process::start(
      {program.string(), "reference"},
      {"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1", "PATH=/usr/bin:/bin", "LC_ALL=C"});
  if (!parent)
    return base::fail(parent.error().code,
                      "{}; references need it, build with LibTorch (tools/setup.sh)",
                      parent.error().message);
  std::unique_ptr<reference_service> service(new reference_service(std::move(*parent)));
  service->required_ = mode == sandbox_mode::required;
  return service;
}

base::expected<reference_runner> reference_service::open(const std::string& torchscript, int core,
                                                         std::int64_t memory_bytes) {
  QUERN_TRY(auto ends, runner_link::make_pair());
  const runner::fork_request request{memory_bytes, core, required_ ? 1U : 0U};
  QUERN_TRY(const auto answer,
            parent_.ask(std::as_bytes(std::span(&request, 1)), std::move(ends.second)));
  runner::fork_reply forked;
  if (answer.size() != sizeof forked)
    return base::fail(base::errc::unavailable, "the reference process does not answer");
  std::memcpy(&forked, answer.data(), sizeof forked);
  if (forked.pid < 0)
    return base::fail(base::errc::unavailable, "the reference process cannot fork: {}",
                      std::strerror(forked.error));
  base::killed_at_end process(parent_.pid(), forked.pid);
  runner_link link(std::move(ends.first), forked.pid);
  auto compiled = link.script(torchscript, script_limits);
  if (!compiled) return tl::make_unexpected(as_error(compiled.error()));
  return reference_runner(std::move(process), std::move(link),
                          layer_set::from_bits(static_cast<std::uint32_t>(compiled->value)));
}

base::expected<std::vector<std::vector<std::byte>>> reference_runner::run(
    const task_instance& instance, std::span<const std::vector<std::byte>> inputs, bool in_f64) {
  const auto outputs = in_f64 ? widened(instance.outputs) : instance.outputs;
  QUERN_TRY(auto in, make_input_arena(instance, 1));
  QUERN_TRY(auto out, tensor_arena::create(memory_use::outputs, outputs, 1));
  if (inputs.size() != instance.inputs.size())
    return base::fail(base::errc::invalid_argument, "{} inputs given, the task has {}",
                      inputs.size(), instance.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto to = in.at(i, 0);
    if (inputs[i].size() != to.size())
      return base::fail(base::errc::invalid_argument, "input {} has {} bytes, the task says {}",
                        instance.inputs[i].name, inputs[i].size(), to.size());
    std::copy(inputs[i].begin(), inputs[i].end(), to.begin());
  }
  QUERN_TRY(auto plan, make_plan(instance, in, out));
  plan.in_f64 = in_f64 ? 1 : 0;
  auto step = link_.map(in.request(0), in.fd(), run_limits);
  if (step) step = link_.map(out.request(1), out.fd(), run_limits);
  if (step) step = link_.plan(plan, run_limits);
  if (!step) return tl::make_unexpected(as_error(step.error()));
  if (auto ran = link_.run(0, 1, run_limits); !ran)
    return tl::make_unexpected(as_error(ran.error()));
  if (step = link_.flush(run_limits); !step) return tl::make_unexpected(as_error(step.error()));
  std::vector<std::vector<std::byte>> result;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto from = out.at(o, 0);
    result.emplace_back(from.begin(), from.end());
  }
  return result;
}

}  // namespace quern::env
