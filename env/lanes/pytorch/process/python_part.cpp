// libquern_python.so: what the Python processes of lane `pytorch` cannot do themselves.
#include "env/lanes/pytorch/process/python_part.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/json.hpp"
#include "env/runner/channel.hpp"
#include "env/runner/gpu_lock.hpp"
#include "env/runner/mapping.hpp"
#include "env/runner/serve.hpp"
#include "env/sandbox/in_process.hpp"

namespace quern::env {
namespace {

using runner::command;
using runner::outcome;
using runner::question;
using runner::reply;

using problem_text = std::array<char, quern_python_problem_bytes>;

int tell(const base::error& e, char* problem, std::int32_t room) {
  if (room > 0) std::snprintf(problem, static_cast<std::size_t>(room), "%s", e.message.c_str());
  return 1;
}

/// Bits of the layers of this process, once it is a child.
std::uint32_t layers_on = 0;

/// Answers commands as Python's functions say.
class python_runner {
 public:
  explicit python_runner(const quern_python_handlers& handlers) : handlers_(handlers) {}

  reply map(const question& asked, const runner::map_request& request);
  reply load(const question& asked, const runner::load_request& request);
  reply ask(const question& asked, const runner::lane_request& request);
  reply workspace(const question& asked, const runner::call_plan&) { return asked.done(); }
  reply plan(const question& asked, const runner::call_plan& plan);
  reply run(const question& asked, const runner::run_request& request);
  /// Outputs are in place when run() has answered.
  reply flush(const question& asked);
  reply import_region(const question& asked, const runner::gpu_import_request& request);
  reply call(const question& asked, const runner::gpu_call_request& plan);
  reply deliver(const question& asked);

 private:
  static reply answer(const question& asked, quern_python_outcome how, const problem_text& problem,
                      std::uint64_t value = 0);
  /// `address_of(place)`: 0 where it lies outside of what is mapped.
  template <class Addresses>
  reply tell_plan(const question& asked, std::span<const runner::tensor_place> places,
                  std::uint32_t inputs, std::uint32_t in_f64, const Addresses& address_of);

  struct device_memory {
    std::uint64_t address = 0, bytes = 0;
  };

  const quern_python_handlers& handlers_;
  runner::mapped_files files_;
  std::array<std::uint64_t, runner::max_files> file_bytes_{};
  std::array<device_memory, QUERN_REGIONS> regions_{};
};

reply python_runner::answer(const question& asked, quern_python_outcome how,
                            const problem_text& problem, std::uint64_t value) {
  if (how == 0) return asked.done(value);
  if (how != quern_python_no_memory && how != quern_python_not_here)
    return runner::make_reply(asked.ticket, static_cast<outcome>(how), value, problem.data());
  reply refused = asked.failed(problem.data());
  refused.why = how == quern_python_no_memory ? runner::cause::memory : runner::cause::not_here;
  return refused;
}

reply python_runner::map(const question& asked, const runner::map_request& request) {
  if (!files_.map(request, asked.descriptor)) return asked.failed(std::strerror(errno));
  file_bytes_[request.file] = request.bytes;
  return asked.done(reinterpret_cast<std::uint64_t>(files_.at(request.file, 0)));
}

reply python_runner::load(const question& asked, const runner::load_request& request) {
  if (request.path.back() != 0) return asked.unusable();
  problem_text problem{};
  return answer(asked, handlers_.load(request.path.data(), problem.data()), problem, layers_on);
}

reply python_runner::ask(const question& asked, const runner::lane_request& request) {
  if (request.bytes > request.text.size()) return asked.unusable();
  constexpr std::uint32_t sheet = runner::max_files - 1;
  problem_text problem{};
  std::uint64_t value = 0;
  const auto how = handlers_.ask(request.text.data(), request.bytes,
                                 reinterpret_cast<std::uint64_t>(files_.at(sheet, 0)),
                                 file_bytes_[sheet], &value, problem.data());
  return answer(asked, how, problem, value);
}

template <class Addresses>
reply python_runner::tell_plan(const question& asked, std::span<const runner::tensor_place> places,
                               std::uint32_t inputs, std::uint32_t in_f64,
                               const Addresses& address_of) {
  std::array<quern_python_tensor, runner::max_tensors> tensors{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const runner::tensor_place& place = places[i];
    const std::uint64_t address = address_of(place);
    if (address == 0 || place.rank > place.shape.size())
      return asked.failed("a tensor lies outside its file");
    quern_python_tensor& one = tensors[i];
    one = {address, place.stride, place.type, place.rank, {}};
    std::copy(place.shape.begin(), place.shape.end(), one.shape);
  }
  problem_text problem{};
  const auto outputs = static_cast<std::uint32_t>(places.size()) - inputs;
  return answer(asked, handlers_.plan(tensors.data(), inputs, outputs, in_f64, problem.data()),
                problem);
}

reply python_runner::plan(const question& asked, const runner::call_plan& plan) {
  const std::size_t count = std::size_t{plan.inputs} + plan.outputs;
  if (count > runner::max_tensors) return asked.failed("plan out of bounds");
  return tell_plan(asked, std::span(plan.tensors).first(count), plan.inputs, plan.in_f64,
                   [this](const runner::tensor_place& place) {
                     return reinterpret_cast<std::uint64_t>(files_.at(place.file, place.offset));
                   });
}

reply python_runner::import_region(const question& asked,
                                   const runner::gpu_import_request& request) {
  if (handlers_.import_region == nullptr || request.region < 0 || request.region >= QUERN_REGIONS)
    return asked.unusable();
  problem_text problem{};
  std::uint64_t address = 0;
  const auto how =
      handlers_.import_region(request.region, asked.descriptor, request.bytes, request.hint,
                              request.writable_hint, &address, problem.data());
  if (how == 0) regions_[static_cast<std::size_t>(request.region)] = {address, request.bytes};
  return answer(asked, how, problem, address);
}

reply python_runner::call(const question& asked, const runner::gpu_call_request& plan) {
  const std::size_t count = std::size_t{plan.inputs} + plan.outputs;
  if (count > runner::max_tensors) return asked.failed("plan out of bounds");
  return tell_plan(asked, std::span(plan.tensors).first(count), plan.inputs, plan.in_f64,
                   [this](const runner::tensor_place& place) -> std::uint64_t {
                     if (place.file >= regions_.size()) return 0;
                     const device_memory& region = regions_[place.file];
                     return place.offset < region.bytes ? region.address + place.offset : 0;
                   });
}

reply python_runner::flush(const question& asked) {
  if (handlers_.wake == nullptr) return asked.done();
  problem_text problem{};
  return answer(asked, handlers_.wake(problem.data()), problem);
}

reply python_runner::deliver(const question& asked) {
  if (handlers_.deliver == nullptr) return asked.unusable();
  problem_text problem{};
  return answer(asked, handlers_.deliver(problem.data()), problem);
}

reply python_runner::run(const question& asked, const runner::run_request& request) {
  problem_text problem{};
  return answer(asked, handlers_.run(request.begin, request.end, problem.data()), problem);
}

constexpr std::array python_commands{
    runner::handled_by<command::run, &python_runner::run>(),
    runner::handled_by<command::gpu_deliver, &python_runner::deliver>(),
    runner::handled_by<command::gpu_call, &python_runner::call>(),
    runner::handled_by<command::gpu_import, &python_runner::import_region>(),
    runner::handled_by<command::plan, &python_runner::plan>(),
    runner::handled_by<command::flush, &python_runner::flush>(),
    runner::handled_by<command::ask_lane, &python_runner::ask>(),
    runner::handled_by<command::workspace, &python_runner::workspace>(),
    runner::handled_by<command::map, &python_runner::map>(),
    runner::handled_by<command::load, &python_runner::load>(),
};

runner::command_server python_server;
int python_socket = -1;

// Tells where a candidate died, for the person who wrote it, and dies.
void tell_python_fault(int signal, siginfo_t* info, void* context) {
  reply r = runner::make_reply(python_server.ticket, outcome::fault,
                               reinterpret_cast<std::uint64_t>(info->si_addr), nullptr);
  r.signal = static_cast<std::uint32_t>(signal);
#if defined(__x86_64__)
  const auto* machine = static_cast<const ucontext_t*>(context);
  r.was_write = (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  (void)context;
#endif
  runner::send_reply(python_socket, r);
  _exit(70);
}

// By exit(), as libgomp ends a process in which it can start no thread. What it prints is read by
// nobody.
void tell_end_without_threads(int status, void* /*unused*/) {
  if (quern_python_refused_threads() == 0) return;
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(),
                "its process ended itself with status %d, after it was refused a thread: it has "
                "one, so leave out what asks for more",
                status);
  runner::send_reply(python_socket,
                     runner::make_reply(python_server.ticket, outcome::failed, 0, text.data()));
}

void tell_python_faults() {
  static std::array<std::byte, 64 * 1024> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_sigaction = tell_python_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    sigaction(signal, &action, nullptr);
}

/// The driver opens some dozens, and modules of libraries.
constexpr int most_files_with_gpu = 1024;
/// Where no control group counts them.
constexpr int most_processes_with_compilers = 256;

/// What has begun to lock this process in.
std::optional<sandbox_entry> python_entry;

std::vector<std::string> paths_of(const base::json& spec) {
  std::vector<std::string> paths;
  for (const auto& path : spec.at("read_only"))
    paths.push_back(path.get<std::string>());
  return paths;
}

std::vector<kept_fd> kept_of(const base::json& spec) {
  std::vector<kept_fd> kept;
  for (const auto& one : spec.at("keep"))
    kept.push_back({one.get<int>(), one.get<int>()});
  return kept;
}

base::status begin_entry(const char* text, const cgroup_leaf* group) {
  QUERN_TRY(const auto spec, base::parse_json(text));
  child_spec here;
  QUERN_TRY(here.limits.memory_bytes, base::get<std::int64_t>(spec, "memory_bytes"));
  QUERN_TRY(here.limits.work_bytes, base::get<std::int64_t>(spec, "work_bytes"));
  QUERN_TRY(const bool required, base::get<bool>(spec, "required"));
  here.read_only = paths_of(spec);
  here.keep = kept_of(spec);
  here.profile = syscall_profile::module;
  here.limits.cpu_s = 0;
  if (const auto& gpu = spec.at("gpu"); !gpu.is_null()) {
    here.profile = syscall_profile::gpu_module;
    here.gpu = gpu_access{gpu.at("devices").get<std::vector<std::string>>(),
                          gpu.at("read_only").get<std::vector<std::string>>(),
                          {}};
    here.limits.open_files = most_files_with_gpu;
    here.limits.file_bytes = 0;
    QUERN_TRY(const bool compilers, base::get<bool>(spec, "compilers"));
    if (compilers) {
      here.profile = syscall_profile::gpu_compiler;
      here.limits.processes = most_processes_with_compilers;
    }
  }
  const auto mode = required ? sandbox_mode::required : sandbox_mode::best_effort;
  QUERN_TRY(auto begun, sandbox_entry::begin(here, probe_host(), mode, group));
  python_entry.emplace(std::move(begun));
  return {};
}

base::expected<layer_set> complete_entry(const char* text) {
  if (!python_entry)
    return base::fail(base::errc::invalid_argument, "a sandbox that has not begun");
  QUERN_TRY(const auto spec, base::parse_json(text));
  QUERN_TRY(const auto core, base::get<std::int64_t>(spec, "core"));
  return python_entry->complete({paths_of(spec), kept_of(spec), static_cast<int>(core)});
}

}  // namespace
}  // namespace quern::env

using namespace quern;

int32_t quern_python_probe(char* problem, int32_t room) {
  const env::host_facts& facts = env::probe_host();
  if (facts.obstacle.empty()) return 0;
  return env::tell({base::errc::exhausted, facts.obstacle}, problem, room);
}

void* quern_python_group(int64_t memory_bytes, int32_t processes) {
  const env::host_facts& facts = env::probe_host();
  // Counted on here: children are copies of this process, and would all take the same one.
  env::next_foreign_uid();
  if (facts.cgroups.version == 0) return nullptr;
  auto made = env::cgroup_leaf::create(facts.cgroups, memory_bytes, processes);
  return made ? new env::cgroup_leaf(std::move(*made)) : nullptr;
}

void quern_python_group_end(void* group) {
  const auto* const leaf = static_cast<env::cgroup_leaf*>(group);
  if (leaf == nullptr) return;
  leaf->kill();  // compilers that outlived who started them
  delete leaf;
}

int32_t quern_python_group_ran_out(void* group) {
  return group != nullptr && static_cast<const env::cgroup_leaf*>(group)->had_oom_kill() ? 1 : 0;
}

int32_t quern_python_begin(const char* spec, void* group, char* problem, int32_t room) {
  try {
    const auto begun = env::begin_entry(spec, static_cast<const env::cgroup_leaf*>(group));
    return begun ? 0 : env::tell(begun.error(), problem, room);
  } catch (const std::exception& e) {
    return env::tell({base::errc::invalid_argument, e.what()}, problem, room);
  }
}

int32_t quern_python_complete(const char* spec, uint32_t* layers, char* problem, int32_t room) {
  try {
    const auto on = env::complete_entry(spec);
    if (!on) return env::tell(on.error(), problem, room);
    *layers = env::layers_on = static_cast<uint32_t>(on->bits());
    return 0;
  } catch (const std::exception& e) {
    return env::tell({base::errc::invalid_argument, e.what()}, problem, room);
  }
}

int32_t quern_python_lock(char* problem, int32_t room) {
  // A process that can be traced could be written to through its own /proc.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const int error = env::runner::lock_down(env::runner::gpu_lock::before_loading);
  if (error == 0) return 0;
  return env::tell({base::errc::unavailable, std::strerror(error)}, problem, room);
}

void quern_python_hear_ends_alone() {
  // What Python sets has no such flag.
  struct sigaction action {};
  if (sigaction(SIGCHLD, nullptr, &action) != 0) return;
  action.sa_flags |= SA_NOCLDSTOP;
  sigaction(SIGCHLD, &action, nullptr);
}

int32_t quern_python_serve(int32_t socket, const quern_python_handlers* handlers) {
  env::python_socket = socket;
  env::tell_python_faults();
  on_exit(env::tell_end_without_threads, nullptr);
  env::python_runner runner(*handlers);
  std::vector<std::byte> buffer(env::runner::longest_message(env::python_commands));
  env::python_server.handlers = env::python_commands;
  env::python_server.runner = &runner;
  return env::runner::serve_commands(env::python_server, socket, buffer);
}
