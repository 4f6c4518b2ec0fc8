// The evaluator's end of a runner on a device.
#include "env/gpu/link.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include <sys/mman.h>
#include <unistd.h>

#include "env/gpu/timed_windows.hpp"

namespace quern::env {
namespace {

/// A context and a first module take a second on a loaded host; nothing here waits for a candidate.
constexpr double setting_up_s = 30;

/// Most answers come within some tens of microseconds, and an evaluation asks some eighty
/// questions one after the other: a thread that slept for each of them would wake late eighty
/// times.
constexpr double awake_for_answers_s = 0.001;

question_limits within(double wall_s) {
  // Waiting for the device is done by looking again and again: CPU time says nothing. Processes in
  // making are stopped on purpose (quiet.hpp).
  return {.cpu_s = wall_s,
          .wall_s = wall_s,
          .awake_s = std::min(awake_for_answers_s, awake_for_windows_s()),
          .stopped_s = wall_s};
}

template <class Body>
std::span<const std::byte> bytes_of_message(const Body& body) {
  return std::as_bytes(std::span(&body, 1));
}

answered<void> without_value(answered<runner::reply> r) {
  if (!r) return tl::make_unexpected(std::move(r).error());
  return {};
}

/// What is too long for a message; none where memory is short.
base::unique_fd memory_file_with(std::initializer_list<std::span<const std::byte>> parts) {
  base::unique_fd file(memfd_create("message", MFD_CLOEXEC));
  for (const auto part : parts)
    if (file && ::write(file.get(), part.data(), part.size()) != std::ssize(part)) file.reset();
  return file;
}

tl::unexpected<runner_failure> no_message() {
  return tl::make_unexpected(runner_failure{
      runner_failure::kind::host, {}, fmt::format("a memory file: {}", std::strerror(errno))});
}

tl::unexpected<runner_failure> gpu_link_failure(std::string text) {
  return tl::make_unexpected(runner_failure{runner_failure::kind::refused, {}, std::move(text)});
}

}  // namespace

answered<void> gpu_link::open(int device, double wall_s, runner::gpu_open_stage stage) {
  const runner::gpu_open_request body{device, stage};
  return without_value(
      link_.ask(runner::command::gpu_open, bytes_of_message(body), -1, within(wall_s), nullptr));
}

answered<void> gpu_link::import(std::int32_t region, int fd, std::uint64_t bytes,
                                std::uint64_t hint, std::uint64_t writable_hint) {
  const runner::gpu_import_request body{region, 0, bytes, hint, writable_hint};
  return without_value(link_.ask(runner::command::gpu_import, bytes_of_message(body), fd,
                                 within(setting_up_s), nullptr));
}

answered<void> gpu_link::tensors(const quern_tensors& what, std::int32_t slots) {
  const auto file = memory_file_with({std::as_bytes(std::span(&what, 1))});
  if (!file) return no_message();
  const runner::gpu_tensors_request body{slots, 0};
  return without_value(link_.ask(runner::command::gpu_tensors, bytes_of_message(body), file.get(),
                                 within(setting_up_s), nullptr));
}

answered<void> gpu_link::load_code(int fd, std::uint64_t offset, std::uint64_t bytes,
                                   std::span<const std::string> kernels) {
  runner::gpu_load_request body;
  body.offset = offset;
  body.bytes = bytes;
  body.names = static_cast<std::uint32_t>(kernels.size());
  std::size_t at = 0;
  for (const auto& name : kernels) {
    if (at + name.size() + 2 > body.text.size())
      return gpu_link_failure(fmt::format("names of {} kernels take more than {} bytes",
                                          kernels.size(), body.text.size()));
    std::memcpy(body.text.data() + at, name.data(), name.size());
    at += name.size() + 1;
  }
  return without_value(link_.ask(runner::command::gpu_load, bytes_of_message(body), fd,
                                 within(setting_up_s), nullptr));
}

answered<void> gpu_link::lock(int fd, bool required) {
  const runner::gpu_lock_request body{required ? 1U : 0U, 0};
  return without_value(link_.ask(runner::command::gpu_lock, bytes_of_message(body), fd,
                                 within(setting_up_s), nullptr));
}

answered<bool> gpu_link::load_library(double wall_s, bool loads_libraries) {
  runner::gpu_load_request body;
  body.loads_libraries = loads_libraries ? 1 : 0;
  auto r =
      link_.ask(runner::command::gpu_load, bytes_of_message(body), -1, within(wall_s), nullptr);
  if (!r) return tl::make_unexpected(std::move(r).error());
  return r->value != 0;
}

answered<void> gpu_link::program(const device_program& what) {
  const auto file = memory_file_with(
      {std::as_bytes(std::span(what.steps)), std::as_bytes(std::span(what.parameters))});
  if (!file) return no_message();
  const runner::gpu_program_request body{static_cast<std::uint32_t>(what.steps.size()),
                                         static_cast<std::uint32_t>(what.parameters.size())};
  return without_value(link_.ask(runner::command::gpu_program, bytes_of_message(body), file.get(),
                                 within(setting_up_s), nullptr));
}

answered<void> gpu_link::call(const runner::gpu_call_request& what, double wall_s) {
  constexpr double cores = 64;
  return without_value(link_.ask(runner::command::gpu_call, bytes_of_message(what), -1,
                                 {cores * wall_s, wall_s}, nullptr));
}

answered<void> gpu_link::call(const runner::gpu_call_request& what) {
  return without_value(link_.ask(runner::command::gpu_call, bytes_of_message(what), -1,
                                 within(setting_up_s), nullptr));
}

answered<std::int64_t> gpu_link::workspace(std::span<const std::int64_t> sizes) {
  runner::call_plan body;
  body.sizes = static_cast<std::uint32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), body.size_values.begin());
  auto r = link_.ask(runner::command::workspace, bytes_of_message(body), -1, within(setting_up_s),
                     nullptr);
  if (!r) return tl::make_unexpected(std::move(r).error());
  return static_cast<std::int64_t>(r->value);
}

answered<void> gpu_link::script(const std::string& text) {
  return without_value(link_.script(text, within(setting_up_s)));
}

answered<window_times> gpu_link::window(const window_order& what, double wall_s, double awake_s) {
  if (what.calls.size() > runner::max_window_calls)
    return gpu_link_failure(fmt::format("a window of {} calls, the limit is {}", what.calls.size(),
                                        runner::max_window_calls));
  runner::gpu_window_request body;
  body.count = static_cast<std::int32_t>(what.calls.size());
  body.settings = what.settings;
  std::copy(what.calls.begin(), what.calls.end(), body.orders.begin());
  const auto bytes =
      bytes_of_message(body).first(runner::gpu_window_request::bytes_for(what.calls.size()));
  window_times times;
  auto r =
      link_.ask(runner::command::gpu_window, bytes, -1, {wall_s, wall_s, awake_s}, &times.wall_ns);
  if (!r) return tl::make_unexpected(std::move(r).error());
  times.call_ns.resize(what.calls.size());
  std::memcpy(times.call_ns.data(), r->text.data(), times.call_ns.size() * sizeof times.call_ns[0]);
  std::memcpy(&times.inside, r->text.data() + runner::window_clocks_at, sizeof times.inside);
  return times;
}

answered<void> gpu_link::deliver(double wall_s) {
  return without_value(link_.ask(runner::command::gpu_deliver, {}, -1, within(wall_s), nullptr));
}

answered<void> gpu_link::drop() {
  mapped = {};
  return without_value(link_.ask(runner::command::gpu_drop, {}, -1, within(setting_up_s), nullptr));
}

}  // namespace quern::env
