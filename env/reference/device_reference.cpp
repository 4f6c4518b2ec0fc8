// What a reference process on a device answers.
#include "env/reference/device_reference.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "env/reference/device_torch.hpp"
#include "env/runner/channel.hpp"

namespace quern::env {
namespace {

using runner::command;
using runner::make_reply;
using runner::outcome;
using runner::question;
using runner::reply;

/// Of the device's memory LibTorch may keep this part between two scripts, so that most find what
/// the one before had: giving back and taking anew waits for the driver each time. Several
/// references and the candidates share the device.
constexpr std::int64_t kept_part = 16;
/// Compiling takes 5 to 20 ms; a compiled text takes some hundred KB of host memory.
constexpr std::size_t most_compiled = 64;

outcome outcome_of(result_fault fault) {
  switch (fault) {
    case result_fault::none:
      return outcome::done;
    case result_fault::wrong_shape:
      return outcome::wrong_shape;
    case result_fault::wrong_dtype:
      return outcome::wrong_dtype;
    case result_fault::failed:
      break;
  }
  return outcome::failed;
}

}  // namespace

reply device_reference::failed(const question& asked, const std::string& why, runner::cause cause) {
  forget_results();
  if (window_ != nullptr) {
    // What ran out of memory gives back what it had got so far.
    trim_device_memory(device_, 0);
    if (const auto alive = wait_for_device(device_); !alive)
      lost_ = "the device was lost: " + alive.error().message;
  }
  // No fault of the script: whoever asks takes another process.
  if (!lost_.empty())
    return make_reply(asked.ticket, outcome::fault, 0, (why + "; " + lost_).c_str());
  reply r = asked.failed(why.c_str());
  r.why = cause;
  return r;
}

void device_reference::forget_results() {
  if (script_ != nullptr) script_->forget();
  graph_.clear();
  slots_.clear();
  found_ = {};
}

reply device_reference::open(const question& asked, const runner::gpu_open_request& r) {
  if (window_ != nullptr) return asked.unusable();
  if (const char* problem = library_.load_from(library_path_.c_str()); problem != nullptr)
    return asked.failed(problem);
  if (const auto ready = prepare_libtorch_on(r.device); !ready)
    return asked.failed(ready.error().message.c_str());
  std::array<char, 400> problem{};
  // The default stream: the one that ATen works on.
  if (library_.open(r.device, 0, &window_, problem.data(), problem.size()) != 0)
    return asked.failed(problem.data());
  device_ = r.device;
  kept_bytes_ = memory_of_device(device_) / kept_part;
  graph_ = captured_call(std::filesystem::path(library_path_).parent_path(), device_);
  return asked.done();
}

reply device_reference::import(const question& asked, const runner::gpu_import_request& r) {
  if (r.region < 0 || r.region >= QUERN_REGIONS) return failed(asked, "no such region");
  forget_results();
  auto& region = regions_[static_cast<std::size_t>(r.region)];
  region = {};
  if (library_.import(window_, r.region, asked.descriptor, r.bytes, r.hint, r.writable_hint) != 0)
    return failed(asked, library_.problem(window_));
  region = {library_.address(window_, r.region), r.bytes};
  return asked.done(region.address);
}

reply device_reference::tensors(const question& asked, const runner::gpu_tensors_request& r) {
  quern_tensors what{};
  if (pread(asked.descriptor, &what, sizeof what, 0) != static_cast<ssize_t>(sizeof what))
    return failed(asked, "no tensors came");
  if (library_.tensors(window_, &what, r.slots) != 0)
    return failed(asked, library_.problem(window_));
  return asked.done();
}

reply device_reference::compile(const question& asked, const runner::script_request& r) {
  forget_results();
  script_ = nullptr;
  trim_device_memory(device_, kept_bytes_);
  std::string text(r.text.data(), std::min<std::size_t>(r.bytes, r.text.size()));
  auto known = std::find_if(compiled_.begin(), compiled_.end(),
                            [&](const auto& one) { return one.first == text; });
  if (known == compiled_.end()) {
    auto compiled = script::compile(text, device_);
    if (!compiled) return failed(asked, compiled.error().message);
    compiled_.emplace_front(std::move(text), std::move(*compiled));
    if (compiled_.size() > most_compiled) compiled_.pop_back();
  } else {
    compiled_.splice(compiled_.begin(), compiled_, known);
  }
  script_ = &compiled_.front().second;
  return asked.done();
}

reply device_reference::call(const question& asked, const runner::gpu_call_request& r) {
  forget_results();
  call_.reset();
  if (const auto ok = check_call(r); !ok) return failed(asked, ok.error().message);
  call_ = r;
  return asked.done();
}

/// Before the window: capturing waits for the device, and needs inputs whose content is what the
/// task says, because a reference may use it as indices.
bool device_reference::capture(const quern_order& order, std::string& why, runner::cause& cause) {
  const quern_window_settings plain{};
  std::uint32_t ns = 0;
  std::int32_t count = 0;
  if (library_.begin(window_, &plain) != 0 || library_.before_call(window_, &order) != 0 ||
      library_.after_call(window_) != 0 || library_.end(window_, &ns, 1, &count) != 0) {
    why = library_.problem(window_);
    return false;
  }
  view_inputs(*call_, 0, regions_, inputs_);
  const auto captured = graph_.capture([&](std::string& reason) {
    script_->forget();
    return script_->call(inputs_, 0, call_->in_f64 != 0, reason);
  });
  if (captured) return true;
  why = captured.error().message;
  if (captured.error().code == base::errc::invalid_argument) cause = runner::cause::capture;
  return false;
}

/// What stands between the events of a call. Under a graph all calls have the same results, which
/// are therefore copied before the next call, behind the event.
bool device_reference::queue_call(const quern_order& order, std::size_t number, std::string& why) {
  const bool in_f64 = call_->in_f64 != 0;
  const bool captured = call_->under_graph != 0;
  if (!captured) view_inputs(*call_, order.slot, regions_, inputs_);
  if (library_.before_call(window_, &order) != 0) {
    why = library_.problem(window_);
    return false;
  }
  if (captured ? !graph_.replay(why) : !script_->call(inputs_, number, in_f64, why)) return false;
  if (library_.after_call(window_) != 0) {
    why = library_.problem(window_);
    return false;
  }
  if (captured && found_.fault_kind == result_fault::none) {
    view_outputs(*call_, order.slot, regions_, outputs_);
    found_ = script_->copy_out(outputs_, 0, in_f64);
    if (library_.after_beside(window_) != 0) {
      why = library_.problem(window_);
      return false;
    }
  }
  return true;
}

reply device_reference::window(const question& asked) {
  runner::gpu_window_request r;
  const auto body = asked.body;
  std::memcpy(&r, body.data(), body.size());
  if (r.count < 0 || static_cast<std::size_t>(r.count) > runner::max_window_calls ||
      body.size() != runner::gpu_window_request::bytes_for(static_cast<std::size_t>(r.count)))
    return failed(asked, "a window out of bounds");
  if (script_ == nullptr || !call_) return failed(asked, "a window before a script and its places");
  const auto orders = std::span(r.orders).first(static_cast<std::size_t>(r.count));
  if (const auto ok = check_places(*call_, orders, regions_); !ok)
    return failed(asked, ok.error().message);
  slots_.clear();
  found_ = {};
  std::string why;
  runner::cause cause = runner::cause::unknown;
  if (call_->under_graph == 0)
    script_->forget();
  else if (!graph_.ready() && !orders.empty() && !capture(orders[0], why, cause))
    return failed(asked, why, cause);

  std::array<std::uint32_t, runner::max_window_calls> ns{};
  if (library_.begin(window_, &r.settings) != 0) return failed(asked, library_.problem(window_));
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (!queue_call(orders[i], i, why)) break;
    slots_.push_back(orders[i].slot);
  }
  // Whatever happened: what was queued must not be left at the gate.
  std::int32_t count = 0;
  if (library_.end(window_, ns.data(), r.count, &count) != 0 && why.empty())
    why = library_.problem(window_);
  if (slots_.size() < orders.size() && why.empty()) why = "the reference failed without a reason";
  if (!why.empty()) return failed(asked, why);
  reply answered = asked.done(static_cast<std::uint64_t>(r.count));
  const quern_window_clocks clocks = library_.clocks(window_);
  std::memcpy(answered.text.data(), ns.data(), orders.size() * sizeof ns[0]);
  std::memcpy(answered.text.data() + runner::window_clocks_at, &clocks, sizeof clocks);
  return answered;
}

reply device_reference::deliver(const question& asked) {
  if (slots_.empty()) return failed(asked, "nothing was computed");
  const bool in_f64 = call_->in_f64 != 0;
  if (call_->under_graph == 0)
    for (std::size_t i = 0; i < slots_.size() && found_.fault_kind == result_fault::none; ++i) {
      view_outputs(*call_, slots_[i], regions_, outputs_);
      found_ = script_->deliver(outputs_, i, in_f64);
    }
  if (const auto done = wait_for_device(device_); !done) return failed(asked, done.error().message);
  const result_check found = std::exchange(found_, {});
  slots_.clear();
  // Of a reference that is wrong nothing more is asked; what is left of its results is forgotten.
  if (found.fault_kind != result_fault::none) forget_results();
  return make_reply(asked.ticket, outcome_of(found.fault_kind), 0, found.text.c_str());
}

reply device_reference::drop(const question& asked) {
  forget_results();
  script_ = nullptr;
  call_.reset();
  regions_ = {};
  for (std::int32_t region = 0; region < QUERN_REGIONS; ++region)
    if (library_.drop(window_, region) != 0) return failed(asked, library_.problem(window_));
  trim_device_memory(device_, kept_bytes_);
  return asked.done();
}

const char* device_reference::refuses(command what, outcome& how) const {
  if (!lost_.empty()) {
    how = outcome::fault;
    return lost_.c_str();
  }
  return window_ == nullptr && what != command::gpu_open ? "no device was opened" : nullptr;
}

std::span<const runner::command_handler> device_reference::commands() {
  static constexpr std::array handlers{
      runner::handled_by<command::gpu_window, &device_reference::window>(),
      runner::handled_by<command::gpu_deliver, &device_reference::deliver>(),
      runner::handled_by<command::gpu_open, &device_reference::open>(),
      runner::handled_by<command::gpu_import, &device_reference::import>(),
      runner::handled_by<command::gpu_tensors, &device_reference::tensors>(),
      runner::handled_by<command::script, &device_reference::compile>(),
      runner::handled_by<command::gpu_call, &device_reference::call>(),
      runner::handled_by<command::gpu_drop, &device_reference::drop>(),
  };
  return handlers;
}

std::size_t device_reference::longest_message() {
  return runner::longest_message(commands());
}

runner::command_server device_reference::server() {
  return {.handlers = commands(),
          .runner = this,
          .refuses =
              [](const void* self, command what, outcome& how) {
                return static_cast<const device_reference*>(self)->refuses(what, how);
              },
          .awake_behind = &runner::awake_behind};
}

}  // namespace quern::env
