// Correctness of a candidate in its process.
#include "env/core/candidate_checks.hpp"

#include <algorithm>
#include <cstring>

#include <signal.h>

#include "env/judge/compare.hpp"
#include "env/judge/judge_layer.hpp"
#include "env/judge/runner_end.hpp"

namespace quern::env {
namespace {

/// CPU time that a runner may use between its answer and the next question: it still has to go to
/// sleep on the core that we have just taken from it, and that is all it has to do until then.
constexpr std::int64_t settle_ns = 200'000;
constexpr int least_late_answers = 3;

/// The candidate may have said any number.
std::string name_of_signal(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? name : fmt::format("signal {}", signal);
}

finding found(verdict_kind kind, std::string reason, std::string detail) {
  return {kind, std::move(reason), std::move(detail), std::nullopt};
}

finding hack(hack_kind kind, std::string detail) {
  return found(verdict_kind::hack, std::string(name_of(kind)), std::move(detail));
}

std::string tensor_name(const std::vector<tensor_layout>& tensors, int index) {
  return index >= 0 && static_cast<std::size_t>(index) < tensors.size()
             ? tensors[static_cast<std::size_t>(index)].name
             : std::string("memory");
}

/// Whether the outputs are those of another case.
bool delivered(const expected_size& size, std::size_t index, const output_limits& of_task,
               const candidate_memory& memory) {
  const output_limits& limit = limit_of(size.cases[index], of_task);
  for (std::size_t o = 0; o < size.cases[index].want.size(); ++o)
    if (compare_tensor(size.instance.outputs[o], limit.at(o), memory.outputs->at(o, 0),
                       size.cases[index].want[o]))
      return false;
  return true;
}

}  // namespace

void poison(std::span<std::byte> bytes, int pattern) {
  std::memset(bytes.data(), pattern == 0 ? 0xFF : 0x4B, bytes.size());
}

finding candidate_checker::load(const std::string& artefact) {
  auto loaded = process_.link().load(artefact, limits_);
  if (!loaded) return explain(loaded.error(), nullptr, nullptr, "load");
  has_workspace_ = loaded->value != 0;
  return {};
}

finding candidate_checker::prepare(const task_instance& instance, std::int64_t slots,
                                   const tensor_arena* inputs, candidate_memory& memory) {
  auto& link = process_.link();
  if (auto f = check_still_quiet(link.cpu_ns()); !f.ok()) return f;
  const auto host = [](const base::error& e) {
    return found(verdict_kind::infra_error, "", e.message);
  };
  if (inputs == nullptr) {
    auto made = make_input_arena(instance, slots);
    if (!made) return host(made.error());
    memory.inputs.emplace(std::move(*made));
    inputs = &*memory.inputs;
    for (std::int64_t s = 0; s < slots; ++s)
      inputs->arm(s);
  }
  auto outputs = tensor_arena::create(memory_use::outputs, instance.outputs, slots);
  if (!outputs) return host(outputs.error());
  memory.outputs.emplace(std::move(*outputs));
  for (std::int64_t s = 0; s < slots; ++s)
    memory.outputs->arm(s);
  auto plan = make_plan(instance, *inputs, *memory.outputs);
  if (!plan) return host(plan.error());
  memory.plan = *plan;

  auto mapped = link.map(inputs->request(0), inputs->fd(), limits_);
  if (mapped) {
    memory.input_address = mapped->value;
    mapped = link.map(memory.outputs->request(1, *inputs), memory.outputs->fd(), limits_);
  }
  if (!mapped) return explain(mapped.error(), nullptr, nullptr, "verify");
  memory.output_address = mapped->value;

  if (has_workspace_) {
    auto asked = link.workspace(memory.plan, limits_);
    if (!asked) return explain(asked.error(), &memory, &instance, "verify");
    const auto bytes = static_cast<std::int64_t>(asked->value);
    if (bytes < 0 || bytes > max_workspace_bytes)
      return found(verdict_kind::oom, "",
                   fmt::format("workspace_bytes returned {}; 0 to {} are possible", bytes,
                               max_workspace_bytes));
    if (bytes > 0) {
      tensor_layout scratch;
      scratch.name = "workspace";
      scratch.type = dtype::u8;
      scratch.elements = scratch.bytes = bytes;
      auto made = tensor_arena::create(memory_use::outputs, std::span(&scratch, 1), 1);
      if (!made) return host(made.error());
      memory.workspace.emplace(std::move(*made));
      poison(memory.workspace->at(0, 0), 0);
      memory.workspace->arm(0);
      mapped = link.map(memory.workspace->request(2, *inputs), memory.workspace->fd(), limits_);
      if (!mapped) return explain(mapped.error(), &memory, &instance, "verify");
      memory.workspace_address = mapped->value;
      runner::tensor_place place;
      memory.workspace->place(2, std::span(&place, 1));
      memory.plan.has_workspace = 1;
      memory.plan.workspace_file = 2;
      memory.plan.workspace_offset = place.offset;
    }
  }
  if (auto planned = link.plan(memory.plan, limits_); !planned)
    return explain(planned.error(), &memory, &instance, "verify");
  return {};
}

finding candidate_checker::explain(const runner_failure& failure, const candidate_memory* memory,
                                   const task_instance* instance, const std::string& stage) {
  switch (failure.failure_kind) {
    case runner_failure::kind::timeout: {
      process_.end();
      finding late = found(verdict_kind::timeout, stage, failure.text);
      late.doubtful = failure.stopped;
      return late;
    }
    case runner_failure::kind::forged:
      process_.end();
      return hack(hack_kind::forged_result, failure.text);
    case runner_failure::kind::host:
      return found(verdict_kind::infra_error, "", failure.text);
    case runner_failure::kind::refused:
      process_.end();
      if (failure.last.reply_outcome == runner::outcome::wrong_shape)
        return found(verdict_kind::wrong_shape, "", failure.text);
      if (failure.last.reply_outcome == runner::outcome::wrong_dtype)
        return found(verdict_kind::wrong_dtype, "", failure.text);
      if (process_.refusals_are_its_own()) {
        finding refused = found(verdict_kind::runtime_error, "", failure.text);
        refused.cause = failure.last.why;
        return refused;
      }
      if (stage == "load")
        return found(verdict_kind::runtime_error, "",
                     fmt::format("cannot be loaded: {}", failure.text));
      // From here on the candidate's code has run, and may have answered in its runner's place: it
      // must not turn a reward of 0 into a failure of this host, which is tried again and dropped.
      return found(verdict_kind::runtime_error, "",
                   fmt::format("its runner refused to go on: {}", failure.text));
    case runner_failure::kind::gone:
    case runner_failure::kind::fault:
      break;
  }
  const child_end end = process_.end();
  if (end.out_of_memory || failure.failure_kind == runner_failure::kind::gone)
    return ended_without_answer(end);
  const std::uint64_t address = failure.last.value;
  const bool write = failure.last.was_write != 0;
  const int signal = static_cast<int>(failure.last.signal);
  if (signal != SIGSEGV && signal != SIGBUS)
    return found(verdict_kind::runtime_error, "",
                 fmt::format("{} ({})", name_of_signal(signal), strsignal(signal)));
  std::string where = fmt::format("address 0x{:x}", address);
  // Symbols of libraries that a candidate is not linked with are null.
  if (address == 0 && !write && process_.may_lack_functions())
    where += ", or calling a function that kernels do not have (exceptions, threads)";
  if (memory != nullptr && instance != nullptr) {
    const auto inside = [&](std::uint64_t start, const std::optional<tensor_arena>& arena) {
      return arena && start != 0 && address + page_bytes >= start &&
             address < start + arena->size() + page_bytes;
    };
    if (inside(memory->input_address, memory->inputs)) {
      const int t =
          memory->inputs->nearest_tensor(address - std::min(address, memory->input_address));
      if (write)
        return hack(hack_kind::input_modified,
                    fmt::format("wrote to input {} or beside it; inputs are read-only",
                                tensor_name(instance->inputs, t)));
      where = fmt::format("{} bytes into the memory of input {}",
                          address - std::min(address, memory->input_address),
                          tensor_name(instance->inputs, t));
    } else if (inside(memory->output_address, memory->outputs)) {
      const int t =
          memory->outputs->nearest_tensor(address - std::min(address, memory->output_address));
      where =
          fmt::format("beside output {}, outside its bounds", tensor_name(instance->outputs, t));
      if (write) return hack(hack_kind::overrun, fmt::format("wrote {}", where));
    } else if (inside(memory->workspace_address, memory->workspace)) {
      where = "beside the workspace, outside the bytes that workspace_bytes asked for";
      if (write) return hack(hack_kind::overrun, fmt::format("wrote {}", where));
    }
  }
  return found(verdict_kind::runtime_error, "",
               fmt::format("{} ({}) while {} {}", name_of_signal(signal), strsignal(signal),
                           write ? "writing" : "reading", where));
}

finding candidate_checker::check_quiet(const candidate_memory& memory,
                                       const task_instance& instance, std::int64_t slots,
                                       std::int64_t cpu_after) {
  auto& link = process_.link();
  if (const int threads = link.threads(); threads > 1 && judges_with(judge_layer::thread_count))
    return hack(hack_kind::leftover_work,
                fmt::format("{} threads are alive after the call has returned", threads));
  if (judges_with(judge_layer::messages) && link.has_unasked_message())
    return hack(hack_kind::forged_result, "a message came that answers no question");
  const bool canaries = judges_with(judge_layer::canaries);
  if (memory.outputs && canaries)
    for (std::int64_t s = 0; s < slots; ++s)
      if (const int t = memory.outputs->touched_canary(s); t >= 0)
        return hack(hack_kind::overrun,
                    fmt::format("wrote outside output {}", tensor_name(instance.outputs, t)));
  if (memory.workspace && canaries && memory.workspace->touched_canary(0) >= 0)
    return hack(hack_kind::overrun, "wrote outside the bytes that workspace_bytes asked for");
  cpu_at_answer_ = cpu_after;
  if (cpu_after < 0) return {};
  ++answers_;
  counted_late_ = false;
  return count_late(link.cpu_ns());
}

finding candidate_checker::check_still_quiet(std::int64_t cpu_now) {
  finding f = cpu_at_answer_ < 0 ? finding{} : count_late(cpu_now);
  cpu_at_answer_ = -1;
  return f;
}

finding candidate_checker::count_late(std::int64_t cpu_now) {
  const std::int64_t used_ns = cpu_now - cpu_at_answer_;
  if (counted_late_ || used_ns <= settle_ns) return {};
  counted_late_ = true;
  ++late_answers_;
  // One late answer may be Linux's own work on a busy host (a tick, a stolen slice that is
  // charged to the child); work that is deferred on purpose is there again and again.
  if (judges_with(judge_layer::late_answers) && late_answers_ >= least_late_answers &&
      4 * late_answers_ >= answers_)
    return hack(hack_kind::late_write,
                fmt::format("{} us of work after the call had returned, {} answers of {} were late",
                            used_ns / 1000, late_answers_, answers_));
  return {};
}

finding candidate_checker::run_case(const expected_size& size, std::size_t index, int pattern,
                                    const output_limits& limit, candidate_memory& memory) {
  const auto& expectation = size.cases[index];
  for (std::size_t i = 0; i < expectation.inputs.size(); ++i)
    std::memcpy(memory.inputs->at(i, 0).data(), expectation.inputs[i].data(),
                expectation.inputs[i].size());
  for (std::size_t o = 0; o < expectation.want.size(); ++o)
    poison(memory.outputs->at(o, 0), pattern);
  auto ran = process_.link().run(0, 1, limits_);
  if (!ran) return explain(ran.error(), &memory, &size.instance, "verify");
  call_ns_ = static_cast<double>(*ran);
  const std::int64_t cpu_after = process_.link().cpu_ns();
  finding wrong;
  const bool values = judges_with(judge_layer::values);
  for (std::size_t o = 0; values && o < expectation.want.size() && wrong.ok(); ++o) {
    auto difference = compare_tensor(size.instance.outputs[o], limit_of(expectation, limit).at(o),
                                     memory.outputs->at(o, 0), expectation.want[o]);
    if (!difference) continue;
    wrong = found(verdict_kind::wrong_value, "",
                  fmt::format("{} ({})", describe(*difference), expectation.name));
    wrong.first_diff = std::move(difference);
  }
  if (!wrong.ok() && index > 0 && delivered(size, index - 1, limit, memory)) {
    auto difference = std::move(wrong.first_diff);
    wrong = hack(hack_kind::stale_output,
                 fmt::format("delivered the result of the inputs before ({})", expectation.name));
    wrong.first_diff = std::move(difference);
  }
  // A write outside, or a thread that is still computing, says more than the wrong value it caused.
  if (auto quiet = check_quiet(memory, size.instance, 1, cpu_after); !quiet.ok()) return quiet;
  return wrong;
}

finding candidate_checker::run_cases(const expected_size& size, const output_limits& limit,
                                     const std::string& label, std::vector<check_result>& checks) {
  candidate_memory memory;
  if (auto f = prepare(size.instance, 1, nullptr, memory); !f.ok()) return f;
  std::vector<tensor_bytes> first;
  const std::size_t cases = judges_with(judge_layer::fresh_content) ? size.cases.size() : 1;
  for (std::size_t c = 0; c < cases; ++c) {
    auto f = run_case(size, c, static_cast<int>(c % 2), limit, memory);
    checks.push_back({label + size.cases[c].name, f.ok(), f.detail});
    if (!f.ok()) return f;
    if (c != 0) continue;
    for (std::size_t o = 0; o < size.instance.outputs.size(); ++o) {
      const auto bytes = memory.outputs->at(o, 0);
      first.emplace_back(bytes.begin(), bytes.end());
    }
  }
  // Twice, so that what alternates from call to call is seen, however many cases there are.
  finding again;
  for (int pattern : {1, 0}) {
    if (!again.ok()) break;
    again = run_case(size, 0, pattern, limit, memory);
    if (!again.ok() && again.kind == verdict_kind::wrong_value)
      // It was right the first time: what has changed is what was called in between.
      again = hack(
          hack_kind::stale_output,
          fmt::format("right at first, wrong on the same inputs after others: {}", again.detail));
    for (std::size_t o = 0; judges_with(judge_layer::repeats) && o < first.size() && again.ok();
         ++o)
      if (auto difference =
              compare_bits(size.instance.outputs[o], memory.outputs->at(o, 0), first[o])) {
        again = found(verdict_kind::nondeterministic, "",
                      fmt::format("two calls on equal inputs disagree: {} ({})",
                                  describe(*difference), size.cases[0].name));
        again.first_diff = std::move(difference);
      }
  }
  checks.push_back({"same inputs again", again.ok(), again.detail});
  if (!again.ok() || size.in_a_row.empty()) return again;
  return run_in_a_row(size, limit, label, checks);
}

finding candidate_checker::run_in_a_row(const expected_size& size, const output_limits& limit,
                                        const std::string& label,
                                        std::vector<check_result>& checks) {
  const auto calls = std::ssize(size.in_a_row);
  candidate_memory memory;
  if (auto f = prepare(size.instance, calls, nullptr, memory); !f.ok()) return f;
  for (std::int64_t c = 0; c < calls; ++c) {
    const expected_case& call = size.in_a_row[static_cast<std::size_t>(c)];
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      std::ranges::copy(call.inputs[i], memory.inputs->at(i, c).begin());
    for (std::size_t o = 0; o < call.want.size(); ++o)
      poison(memory.outputs->at(o, c), static_cast<int>(c % 2));
  }
  const auto ran = process_.link().run(0, calls, limits_);
  if (!ran) return explain(ran.error(), &memory, &size.instance, "verify");
  const std::int64_t cpu_after = process_.link().cpu_ns();
  finding wrong;
  for (std::int64_t c = 0; c < calls && judges_with(judge_layer::values) && wrong.ok(); ++c) {
    const expected_case& call = size.in_a_row[static_cast<std::size_t>(c)];
    for (std::size_t o = 0; o < call.want.size() && wrong.ok(); ++o) {
      auto difference = compare_tensor(size.instance.outputs[o], limit_of(call, limit).at(o),
                                       memory.outputs->at(o, c), call.want[o]);
      if (!difference) continue;
      wrong = found(verdict_kind::wrong_value, "",
                    fmt::format("{} ({})", describe(*difference), call.name));
      wrong.first_diff = std::move(difference);
    }
  }
  if (auto quiet = check_quiet(memory, size.instance, calls, cpu_after); !quiet.ok()) wrong = quiet;
  checks.push_back({label + "calls in a row", wrong.ok(), wrong.detail});
  return wrong;
}

finding candidate_checker::check_size(const expected_size& size, const output_limits& limit,
                                      std::vector<check_result>& checks) {
  return run_cases(size, limit, "hidden: ", checks);
}

finding candidate_checker::probe(const expected_size& timed, const output_limits& limit,
                                 std::vector<check_result>& checks) {
  return run_cases(timed, limit, "timed sizes: ", checks);
}

}  // namespace quern::env
