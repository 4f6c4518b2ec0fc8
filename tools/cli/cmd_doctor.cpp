// quern doctor: what will work on this machine, and what to do about the rest.
#include <filesystem>
#include <set>
#include <thread>

#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/judge/machine.hpp"
#include "env/runner/reference_service.hpp"
#include "env/sandbox/child.hpp"
#include "env/sandbox/probe.hpp"
#include "env/task/lane_on_gpus.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

void line(const std::string& what, bool good, const std::string& text) {
  fmt::print("{} {:<14} {}\n", good ? "ok  " : "MISS", what, text);
}

bool check_programs() {
  const auto path = base::sibling_program("quern-torch");
  line("quern-torch", path.has_value(), path ? path->string() : path.error().message);
  return path.has_value();
}

bool check_libtorch() {
  const auto torch = base::sibling_program("quern-torch");
  if (!torch) return false;
  auto child =
      base::subprocess::start({.argv = {torch->string(), "sample", "--help"}, .log = "/dev/null"});
  const auto end = child ? child->wait(30'000'000'000) : std::nullopt;
  if (!end || end->code != 0 || end->signal != 0) {
    line("LibTorch", false, "quern-torch does not start: run tools/setup.sh, then ldd quern-torch");
    return false;
  }
  // An evaluator starts it without the variables of this terminal, such as LD_LIBRARY_PATH.
  const auto service = env::reference_service::start(*torch, env::sandbox_mode::best_effort);
  line("LibTorch", service.has_value(),
       service ? "loads, and starts as an evaluator starts it"
               : base::one_line(service.error().message) +
                     "; libraries found by LD_LIBRARY_PATH alone are not found there");
  return service.has_value();
}

enum class lane_state {
  judged,  ///< what its judges need is here
  absent,  ///< its programs are not: a machine need not judge every lane
  broken   ///< they are, and do not work
};

lane_state check_lane(const env::lane& lane) {
  const std::string what = fmt::format("lane {}", lane.name);
  const auto programs = lane.check_programs != nullptr ? lane.check_programs() : base::status();
  if (!programs) {
    fmt::print("--   {:<14} {}: not judged here: {}\n", what, lane.summary,
               programs.error().message);
    return lane_state::absent;
  }
  // GPUs tell theirs, a line each.
  const auto device = lane.device == env::device_kind::core ? lane.device_class(0) : std::string();
  if (!device) {
    line(what, false, fmt::format("{}: {}", lane.summary, device.error().message));
    return lane_state::broken;
  }
  line(what, true,
       fmt::format("{}{}: its programs are here", lane.summary,
                   device->empty() ? "" : " of class " + *device));
  if (lane.try_compiler == nullptr) return lane_state::judged;
  const auto version = lane.try_compiler();
  line(fmt::format("compiler ({})", lane.name), version.has_value(),
       version ? *version : version.error().message);
  return version.has_value() ? lane_state::judged : lane_state::broken;
}

/// None may be broken, and one on a core must be judged here. A lane whose device is not here is
/// not asked.
bool check_lanes() {
  bool broken = false, on_a_core = false;
  for (const env::lane* lane : env::all_lanes()) {
    const bool core = lane->device == env::device_kind::core;
    if (!core && !env::has_nvidia_driver()) continue;
    const lane_state state = check_lane(*lane);
    broken |= state == lane_state::broken;
    on_a_core |= core && state == lane_state::judged;
  }
  if (!on_a_core)
    line("lanes", false, "none on a core can be judged here: build all of Quern (tools/setup.sh)");
  return !broken && on_a_core;
}

/// Of a GPU, as env.device_class takes it; each lane may have its own, and none where it is not
/// told.
std::string classes_of(int gpu) {
  std::set<std::string> classes;
  for (const env::lane* lane : env::all_lanes()) {
    if (!env::measures_on_gpu(*lane, true)) continue;
    if (auto one = env::device_class_on(*lane, true, gpu)) classes.insert(std::move(*one));
  }
  return fmt::format("{}", fmt::join(classes, ", "));
}

/// A machine without a GPU is well; one whose GPU does not compute is not.
bool check_gpus() {
  if (!env::has_nvidia_driver()) {
    std::vector<std::string_view> left;
    for (const env::lane* lane : env::all_lanes())
      if (lane->device == env::device_kind::core) left.push_back(lane->name);
    fmt::print("--   {:<14} none: policies run on the CPU, lane {} only\n", "GPU",
               fmt::join(left, ", "));
    return true;
  }
  const auto host = env::probe_gpus();
  if (!host) {
    line("GPU", false, host.error().message);
    return false;
  }
  bool all = true;
  for (std::size_t i = 0; i < host->gpus.size(); ++i) {
    const env::gpu_facts& gpu = host->gpus[i];
    const std::string classes = classes_of(static_cast<int>(i));
    line(fmt::format("GPU {}", i), gpu.problem.empty(),
         fmt::format(
             "{} ({}sm_{}{}, {} multiprocessors, {} of {} free, {}), driver for CUDA {}, built "
             "with {}: {}",
             gpu.name, classes.empty() ? "" : fmt::format("class {}, ", classes), gpu.major,
             gpu.minor, gpu.multiprocessors, base::human_bytes(gpu.free_bytes),
             base::human_bytes(gpu.memory_bytes), gpu.bus_id, host->driver_cuda, host->built_with,
             gpu.problem.empty() ? "a kernel ran and was right" : gpu.problem));
    all &= gpu.problem.empty();
  }
  return all;
}

bool check_disk() {
  std::error_code code;
  const fs::space_info space = fs::space(fs::current_path(code), code);
  constexpr std::uintmax_t wanted = 2ULL << 30U;
  const bool good = !code && space.available >= wanted;
  line("disk", good,
       fmt::format(
           "{} free here{}", base::human_bytes(space.available),
           good ? "" : ", at least 2 GiB are needed for a run: free some or set run.folder"));
  return good;
}

bool check_sandbox(const env::host_facts& facts) {
  bool all = true;
  for (const auto& [what, admitted, good] : env::admissions(facts, env::has_nvidia_driver())) {
    line(what, admitted.has_value(), admitted ? good : admitted.error().message);
    all &= admitted.has_value();
  }
  return all;
}

}  // namespace

int cmd_doctor(int argc, char** argv) {
  CLI::App app("quern doctor: what will work on this machine, and what to do about the rest");
  if (const auto code = parse(app, argc, argv)) return *code;
  const unsigned cores = std::thread::hardware_concurrency();
  line("CPU", cores >= 2,
       fmt::format("{}, {} cores{}", env::cpu_model(), cores,
                   cores >= 2 ? "" : ": with one, measurements share it with the rest of the run"));
  bool good = check_programs();
  good &= check_lanes();
  good &= check_libtorch();
  good &= check_gpus();
  good &= check_disk();
  const env::host_facts& facts = env::probe_host();
  good &= check_sandbox(facts);
  fmt::print("\nsandbox layers:\n{}", env::describe(facts));
  return good ? done : failed;
}

}  // namespace quern::tools
