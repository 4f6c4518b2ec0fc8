// A built candidate in a runner.
#include "env/lanes/cuda/candidate.hpp"

#include "env/gpu/check_layer.hpp"
#include "env/lanes/cuda/program.hpp"

namespace quern::env {
namespace {

/// A shared object's constructors are the candidate's.
constexpr double load_wall_s = 10;

finding this_host(std::string text) {
  return {verdict_kind::infra_error, "", std::move(text), std::nullopt};
}

}  // namespace

finding loaded_candidate::load() {
  process_->note_candidate();
  if (built_->form == cuda_form::host_entry) {
    threads_ = process_->threads();
    const process_memory::question look(memory_);
    // Nothing of the candidate has run yet.
    if (auto locked = link().lock(built_->file.get(), process_->locks_required()); !locked) {
      spoilt_ = true;
      return this_host("a process for host code: " + locked.error().text);
    }
    auto loaded = link().load_library(load_wall_s, process_->has_libraries());
    if (!loaded) return explain(loaded.error(), "load");
    has_workspace_entry_ = *loaded;
    return {};
  }
  auto loaded = link().load_code(built_->file.get(), built_->code.offset, built_->code.bytes,
                                 built_->symbols);
  if (!loaded) return explain(loaded.error(), "load");
  return {};
}

finding loaded_candidate::ask_workspace(const device_instance& of) {
  workspace_bytes_ = 0;
  if (built_->plan) {
    auto bytes = built_->plan->workspace(of.at.sizes);
    if (!bytes)
      return {verdict_kind::runtime_error, "", "workspace_bytes: " + bytes.error().message,
              std::nullopt};
    workspace_bytes_ = *bytes;
  } else if (has_workspace_entry_) {
    const process_memory::question look(memory_);
    auto bytes = link().workspace(of.at.sizes);
    if (!bytes) return explain(bytes.error(), "load");
    workspace_bytes_ = *bytes;
  }
  if (workspace_bytes_ < 0)
    return {verdict_kind::runtime_error, "",
            fmt::format("workspace_bytes returned {}", workspace_bytes_), std::nullopt};
  if (workspace_bytes_ > most_workspace_bytes)
    return {verdict_kind::oom, "",
            fmt::format("workspace_bytes asks for {} bytes, the limit is {}", workspace_bytes_,
                        most_workspace_bytes),
            std::nullopt};
  return {};
}

finding loaded_candidate::prepare(device_context& context, lent_memory& memory,
                                  const device_instance& of, std::int32_t slots) {
  if (auto f = ask_workspace(of); !f.ok()) return f;
  const auto workspace = static_cast<std::uint64_t>(workspace_bytes_);
  if (auto room = memory.reserve(of.needs(slots, workspace)); !room)
    return this_host(room.error().message);
  slot_view(memory.outputs(output_buffer_), of.at.outputs, slots).set_guards(context);
  set_workspace_guards(context, memory.workspace(), workspace);
  if (auto set = context.wait(); !set) return this_host(set.error().message);
  quern_tensors tensors = of.tensors;
  tensors.workspace_bytes = is_on(check_layer::poison) ? workspace : 0;
  if (auto lent = memory.lend(link(), output_buffer_); !lent) return explain(lent.error(), "load");
  if (auto told = link().tensors(tensors, slots); !told) return explain(told.error(), "load");
  if (built_->form == cuda_form::host_entry) {
    if (auto told = link().call(call_request(of, workspace_bytes_ > 0)); !told)
      return explain(told.error(), "load");
    return {};
  }
  auto steps = built_->plan->steps(call_of(of.at, workspace_bytes_));
  if (!steps)
    return {verdict_kind::runtime_error, "", "kernel: " + steps.error().message, std::nullopt};
  auto program = make_device_program(*steps, of);
  if (!program) return {verdict_kind::runtime_error, "", program.error().message, std::nullopt};
  if (auto told = link().program(*program); !told) return explain(told.error(), "load");
  return {};
}

finding loaded_candidate::look() {
  if (built_->form != cuda_form::host_entry) return {};
  const int now = process_->threads();
  if (now <= threads_ || !is_on(check_layer::threads)) return {};
  spoilt_ = true;
  return {verdict_kind::hack, std::string(name_of(hack_kind::leftover_work)),
          fmt::format("{} threads live in the process after a window, {} did before the candidate "
                      "was loaded",
                      now, threads_),
          std::nullopt};
}

finding loaded_candidate::explain(const runner_failure& failure, const std::string& stage) {
  spoilt_ = true;
  return explain_failure(*process_, failure, stage);
}

}  // namespace quern::env
