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
#include "env/sandbox/in_process.hpp"

namespace quern::env {
namespace {

using runner::outcome;
using runner::reply;

class reference_child {
 public:
  explicit reference_child(layer_set layers) : layers_(layers) {}
  reply handle(runner::command what, std::uint64_t ticket, std::span<const std::byte> body, int fd);

 private:
  template <class Body>
  static bool read(std::span<const std::byte> body, Body& into) {
    if (body.size() != sizeof(Body)) return false;
    std::memcpy(&into, body.data(), sizeof(Body));
    return true;
  }
  reply compile(std::uint64_t ticket, const runner::script_request& request);
  reply run(std::uint64_t ticket, const runner::run_request& request);
  reply flush(std::uint64_t ticket);
  /// Views of plan tensors [first, first + count) for call i.
  bool views(std::size_t first, std::size_t count, std::int64_t i,
             std::vector<tensor_view>& into) const;

  layer_set layers_;
  runner::mapped_files files_;
  runner::call_plan plan_;
  std::optional<script> script_;
  runner::run_request last_{};
};

reply reference_child::compile(std::uint64_t ticket, const runner::script_request& request) {
  const std::size_t bytes = std::min<std::size_t>(request.bytes, request.text.size());
  auto compiled = script::compile(std::string(request.text.data(), bytes));
  if (!compiled)
    return runner::make_reply(ticket, outcome::failed, 0, compiled.error().message.c_str());
  script_.emplace(std::move(*compiled));
  return runner::make_reply(ticket, outcome::done, layers_.bits(), nullptr);
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

reply reference_child::run(std::uint64_t ticket, const runner::run_request& request) {
  std::vector<tensor_view> inputs;
  std::string why;
  last_ = request;
  for (std::int64_t i = request.begin; i < request.end; ++i) {
    if (!views(0, plan_.inputs, i, inputs))
      return runner::make_reply(ticket, outcome::failed, 0, "an input lies outside its file");
    if (!script_->call(inputs, static_cast<std::size_t>(i - request.begin), plan_.in_f64 != 0, why))
      return runner::make_reply(ticket, outcome::failed, 0, why.c_str());
  }
  return runner::make_reply(ticket, outcome::done, 0, nullptr);
}

reply reference_child::flush(std::uint64_t ticket) {
  std::vector<tensor_view> outputs;
  for (std::int64_t i = last_.begin; i < last_.end; ++i) {
    if (!views(plan_.inputs, plan_.outputs, i, outputs))
      return runner::make_reply(ticket, outcome::failed, 0, "an output lies outside its file");
    if (plan_.in_f64 != 0)
      for (auto& view : outputs)
        if (is_floating(view.type)) view.type = dtype::f64;
    const auto check =
        script_->deliver(outputs, static_cast<std::size_t>(i - last_.begin), plan_.in_f64 != 0);
    if (check.what == result_fault::wrong_shape)
      return runner::make_reply(ticket, outcome::wrong_shape, 0, check.text.c_str());
    if (check.what == result_fault::wrong_dtype)
      return runner::make_reply(ticket, outcome::wrong_dtype, 0, check.text.c_str());
    if (check.what != result_fault::none)
      return runner::make_reply(ticket, outcome::failed, 0, check.text.c_str());
  }
  last_ = {};
  return runner::make_reply(ticket, outcome::done, 0, nullptr);
}

reply reference_child::handle(runner::command what, std::uint64_t ticket,
                              std::span<const std::byte> body, int fd) {
  switch (what) {
    case runner::command::run:
      if (runner::run_request r; script_ && read(body, r)) return run(ticket, r);
      break;
    case runner::command::flush:
      if (script_) return flush(ticket);
      break;
    case runner::command::plan:
      if (runner::call_plan p;
          read(body, p) && std::size_t{p.inputs} + p.outputs <= runner::max_tensors) {
        plan_ = p;
        return runner::make_reply(ticket, outcome::done, 0, nullptr);
      }
      break;
    case runner::command::map:
      if (runner::map_request m; read(body, m)) {
        if (!files_.map(m, fd))
          return runner::make_reply(ticket, outcome::failed, 0, std::strerror(errno));
        return runner::make_reply(ticket, outcome::done, 0, nullptr);
      }
      break;
    case runner::command::script:
      if (runner::script_request s; read(body, s)) return compile(ticket, s);
      break;
    default:
      break;
  }
  return runner::make_reply(ticket, outcome::failed, 0, "unusable message");
}

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
  auto layers = apply_sandbox_in_this_process(spec, facts, mode, group);
  std::vector<std::byte> buffer(sizeof(runner::header) + sizeof(runner::script_request));
  std::optional<reference_child> child;
  if (layers) child.emplace(*layers);
  for (;;) {
    int fd = -1;
    const std::size_t got = runner::receive(socket, buffer, fd);
    if (got < sizeof(runner::header)) return 0;
    runner::header head;
    std::memcpy(&head, buffer.data(), sizeof head);
    const auto body = std::span<const std::byte>(buffer).subspan(sizeof head, got - sizeof head);
    const reply r =
        child ? child->handle(head.what, head.ticket, body, fd)
              : runner::make_reply(head.ticket, outcome::failed, 0, layers.error().message.c_str());
    if (fd >= 0) close(fd);
    if (!runner::send_reply(socket, r)) return 0;
  }
}

}  // namespace quern::env
