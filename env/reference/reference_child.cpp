// What a forked reference child does.
#include "env/reference/reference_child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <unistd.h>

#include "env/reference/script.hpp"
#include "env/runner/channel.hpp"
#include "env/runner/mapping.hpp"
#include "env/runner/serve.hpp"
#include "env/sandbox/in_process.hpp"

namespace quern::env {
namespace {

using runner::command;
using runner::outcome;
using runner::question;
using runner::reply;

class reference_child {
 public:
  explicit reference_child(const base::expected<layer_set>& layers) : layers_(layers) {}

  /// Nothing is done in a process that could not be sandboxed.
  const char* refuses() const { return layers_ ? nullptr : layers_.error().message.c_str(); }

  reply map(const question& asked, const runner::map_request& request);
  reply compile(const question& asked, const runner::script_request& request);
  reply plan(const question& asked, const runner::call_plan& plan);
  reply run(const question& asked, const runner::run_request& request);
  reply flush(const question& asked);

 private:
  /// Views of plan tensors [first, first + count) for call i.
  bool views(std::size_t first, std::size_t count, std::int64_t i,
             std::vector<tensor_view>& into) const;

  const base::expected<layer_set>& layers_;
  runner::mapped_files files_;
  runner::call_plan plan_;
  std::optional<script> script_;
  runner::run_request last_{};
};

reply reference_child::map(const question& asked, const runner::map_request& request) {
  if (!files_.map(request, asked.descriptor)) return asked.failed(std::strerror(errno));
  return asked.done();
}

reply reference_child::compile(const question& asked, const runner::script_request& request) {
  const std::size_t bytes = std::min<std::size_t>(request.bytes, request.text.size());
  auto compiled = script::compile(std::string(request.text.data(), bytes));
  if (!compiled) return asked.failed(compiled.error().message.c_str());
  script_.emplace(std::move(*compiled));
  return asked.done(layers_->bits());
}

bool reference_child::views(std::size_t first, std::size_t count, std::int64_t i,
                            std::vector<tensor_view>& into) const {
  into.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    const auto& place = plan_.tensors[first + t];
    into[t].type = static_cast<dtype>(place.type);
    into[t].shape.assign(place.shape.begin(),
                         place.shape.begin() + std::min<std::uint32_t>(place.rank, 8));
    into[t].data =
        files_.at(place.file, place.offset + static_cast<std::uint64_t>(i) * place.stride);
    if (into[t].data == nullptr) return false;
  }
  return true;
}

reply reference_child::plan(const question& asked, const runner::call_plan& plan) {
  if (std::size_t{plan.inputs} + plan.outputs > runner::max_tensors) return asked.unusable();
  plan_ = plan;
  return asked.done();
}

reply reference_child::run(const question& asked, const runner::run_request& request) {
  if (!script_) return asked.unusable();
  std::vector<tensor_view> inputs;
  std::string why;
  last_ = request;
  for (std::int64_t i = request.begin; i < request.end; ++i) {
    if (!views(0, plan_.inputs, i, inputs)) return asked.failed("an input lies outside its file");
    if (!script_->call(inputs, static_cast<std::size_t>(i - request.begin), plan_.in_f64 != 0, why))
      return asked.failed(why.c_str());
  }
  return asked.done();
}

reply reference_child::flush(const question& asked) {
  if (!script_) return asked.unusable();
  std::vector<tensor_view> outputs;
  for (std::int64_t i = last_.begin; i < last_.end; ++i) {
    if (!views(plan_.inputs, plan_.outputs, i, outputs))
      return asked.failed("an output lies outside its file");
    if (plan_.in_f64 != 0)
      for (auto& view : outputs)
        if (is_floating(view.type)) view.type = dtype::f64;
    const auto check =
        script_->deliver(outputs, static_cast<std::size_t>(i - last_.begin), plan_.in_f64 != 0);
    if (check.fault_kind == result_fault::wrong_shape)
      return runner::make_reply(asked.ticket, outcome::wrong_shape, 0, check.text.c_str());
    if (check.fault_kind == result_fault::wrong_dtype)
      return runner::make_reply(asked.ticket, outcome::wrong_dtype, 0, check.text.c_str());
    if (check.fault_kind != result_fault::none) return asked.failed(check.text.c_str());
  }
  last_ = {};
  return asked.done();
}

constexpr std::array reference_commands{
    runner::handled_by<command::run, &reference_child::run>(),
    runner::handled_by<command::flush, &reference_child::flush>(),
    runner::handled_by<command::plan, &reference_child::plan>(),
    runner::handled_by<command::map, &reference_child::map>(),
    runner::handled_by<command::script, &reference_child::compile>(),
};

}  // namespace

int serve_reference(int socket, const runner::fork_request& request, const host_facts& facts,
                    const cgroup_leaf* group) {
  child_spec spec;
  spec.keep = {{socket, socket}};
  spec.profile = syscall_profile::reference;
  spec.limits.memory_bytes = request.memory_bytes;
  spec.limits.cpu_s = 0;
  spec.limits.work_bytes = 0;
  spec.core = request.core;
  const auto mode =
      request.sandbox_required != 0 ? sandbox_mode::required : sandbox_mode::best_effort;
  const auto layers = apply_sandbox_in_this_process(spec, facts, mode, group);
  reference_child child(layers);
  std::vector<std::byte> buffer(runner::longest_message(reference_commands));
  runner::command_server server{
      .handlers = reference_commands,
      .runner = &child,
      .refuses = [](const void* self, command /*what*/, outcome& /*how*/) {
        return static_cast<const reference_child*>(self)->refuses();
      }};
  runner::serve_commands(server, socket, buffer);
  return 0;
}

}  // namespace quern::env
