// What host code of a candidate can do to the text that it runs: a real runner in the sandbox, on a
// device that is none (slow_window.cpp), loads an object that tries (grasping_object.cpp).
#include <cstdint>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "env/device/part_build.hpp"
#include "env/gpu/device_timing.hpp"
#include "env/gpu/runner_process.hpp"
#include "env/lanes/cuda/build.hpp"
#include "env/lanes/cuda/candidate.hpp"
#include "env/sandbox/probe.hpp"
#include "support/test.hpp"

using namespace quern;
using env::layer;

namespace {

// Bits of what it tells (grasping_object.cpp).
constexpr int memory_by_proc = 1 + 2 + 4 + 32, own_file = 8, executable_memory = 16;
constexpr int all_that_it_tries = 127;

std::filesystem::path object_file() {
  return base::program_folder() / "libquern_grasping_object.so";
}

/// What the object gets where nothing is locked: loaded from a memory file, as a runner does it.
int unlocked_gains() {
  const auto bytes = base::read_file(object_file()).value();
  const pid_t pid = fork();
  if (pid == 0) {
    const int file = memfd_create("kernel", 0);
    if (base::write_all(file, bytes)) {
      void* object =
          dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
      using question = std::int64_t (*)();
      if (object != nullptr)
        _exit(static_cast<int>(reinterpret_cast<question>(dlsym(object, "workspace_bytes"))()));
    }
    _exit(255);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct locked_runner {
  std::unique_ptr<env::spawner> children;
  std::unique_ptr<env::gpu_runner_process> process;

  explicit locked_runner(env::layer_set allowed = env::layer_set::all(),
                         const std::filesystem::path& program = base::program_folder() /
                                                                "quern-runner") {
    auto made = env::spawner::create(env::sandbox_mode::best_effort, allowed);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
    children = std::move(*made);
    env::gpu_runner_start how;
    how.runner_program = program;
    how.cuda_library = base::program_folder() / "libquern_slow_window.so";
    how.access.devices = {"/dev/zero"};
    auto started = env::gpu_runner_process::start(*children, how);
    REQUIRE_MESSAGE(started.has_value(), (started ? "" : started.error().message));
    process = std::move(*started);
    const auto opened = process->open();
    REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
  }

  env::answered<void> lock(bool required) {
    const base::unique_fd file(open(object_file().c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(file);
    return process->link().lock(file.get(), required);
  }
};

bool sandbox_is_whole() {
  const auto& facts = env::probe_host();
  for (const layer needed : {layer::seccomp, layer::landlock, layer::foreign_uid})
    if (!facts.available.has(needed)) {
      test::skip("this host has no " + std::string(env::name_of(needed)));
      return false;
    }
  return true;
}

}  // namespace

TEST_CASE("without locks the object gets all that it tries") {
  CHECK(unlocked_gains() == all_that_it_tries);
}

TEST_CASE("host code of a candidate cannot write what it runs") {
  if (!sandbox_is_whole()) return;
  locked_runner runner;
  const auto locked = runner.lock(true);
  REQUIRE_MESSAGE(locked.has_value(), (locked ? "" : locked.error().text));
  const auto loaded = runner.process->link().load_library(10);
  REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().text));
  CHECK(*loaded);
  const auto gains = runner.process->link().workspace({});
  REQUIRE_MESSAGE(gains.has_value(), (gains ? "" : gains.error().text));
  CHECK(*gains == 0);
}

TEST_CASE("each lock is what keeps it from what it is there for") {
  if (!sandbox_is_whole()) return;
  const auto folder = base::temp_folder::make("quern-locks-test").value();
  struct row {
    const char* without;
    int gains;
  };
  for (const auto& [without, gains] : {row{"files", memory_by_proc}, row{"seal", own_file},
                                       row{"executable", executable_memory}}) {
    CAPTURE(without);
    const auto program = folder.path() / (std::string("quern-runner-without-") + without);
    std::filesystem::copy_file(base::program_folder() / "quern_switchable_runner", program);
    locked_runner runner(env::layer_set::all(), program);
    REQUIRE(runner.lock(true).has_value());
    REQUIRE(runner.process->link().load_library(10).has_value());
    CHECK(runner.process->link().workspace({}).value() == gains);
  }
}

TEST_CASE("a lock that cannot be put on is an error where locks are required, and else none") {
  if (!sandbox_is_whole()) return;
  env::layer_set allowed = env::layer_set::all();
  // Root stays root: being undumpable changes nothing for it.
  for (const layer off : {layer::foreign_uid, layer::userns})
    allowed.remove(off);
  if (geteuid() != 0) return test::skip("only root can leave out a user of its own alone");
  locked_runner strict(allowed);
  const auto refused = strict.lock(true);
  REQUIRE_FALSE(refused.has_value());
  CHECK(test::contains(refused.error().text, "cannot be locked"));
  locked_runner easy(allowed);
  CHECK(easy.lock(false).has_value());
  CHECK(easy.process->link().load_library(10).has_value());
}

TEST_CASE("nothing is loaded into a process that was not locked, and nobody locks one twice") {
  locked_runner runner;
  CHECK_FALSE(runner.process->link().load_library(10).has_value());
  REQUIRE(runner.lock(false).has_value());
  CHECK_FALSE(runner.lock(false).has_value());
}

TEST_CASE("a library of another build is not used, and the message names both builds") {
  auto made = env::spawner::create(env::sandbox_mode::best_effort);
  REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  env::gpu_runner_start how;
  how.runner_program = base::program_folder() / "quern-runner";
  how.cuda_library = base::program_folder() / "libquern_old_window.so";
  const auto refused = env::gpu_runner_process::start(**made, how);
  REQUIRE_FALSE(refused.has_value());
  CHECK(test::contains(refused.error().message, "libquern_old_window.so is of another build"));
  CHECK(test::contains(refused.error().message, "0123456789abcdef"));
  CHECK(test::contains(refused.error().message, env::cuda_part_build()));
}

TEST_CASE("what a failure means is told by its code, whatever its text says") {
  locked_runner runner;
  const env::built_candidate what;
  env::loaded_candidate candidate(*runner.process, 0, what);
  const auto failure_of = [&](env::runner::cause why) {
    // The device that is none has no room for that many kernels, for this cause.
    const std::vector<std::string> kernels(static_cast<std::size_t>(why), "k");
    const base::unique_fd file(open(object_file().c_str(), O_RDONLY | O_CLOEXEC));
    const auto loaded = runner.process->link().load_code(file.get(), 0, 64, kernels);
    REQUIRE_FALSE(loaded.has_value());
    return loaded.error();
  };
  const auto memory = candidate.explain(failure_of(env::runner::cause::memory), "load");
  CHECK(memory.kind == env::verdict_kind::oom);
  const auto hardware = candidate.explain(failure_of(env::runner::cause::hardware), "load");
  CHECK(hardware.kind == env::verdict_kind::runtime_error);
  CHECK(hardware.cause == env::runner::cause::hardware);
  auto told = failure_of(env::runner::cause::unknown);
  told.text = "loading: CUDA_ERROR_OUT_OF_MEMORY, ECC, Unavailable, under a CUDA graph: ";
  const auto unknown = candidate.explain(told, "load");
  CHECK(unknown.kind == env::verdict_kind::runtime_error);
  CHECK(unknown.cause == env::runner::cause::unknown);

  // The same failures of a baseline: only what cannot be captured is the task's fault.
  const auto captured = failure_of(env::runner::cause::capture);
  const auto reference = env::failed_baseline(captured);
  CHECK(reference.kind == env::verdict_kind::invalid_reference);
  CHECK(reference.cause == env::runner::cause::capture);
  CHECK(reference.detail == "baseline: " + captured.text);
  for (const env::runner::cause why : {env::runner::cause::memory, env::runner::cause::hardware})
    CHECK(env::failed_baseline(failure_of(why)).kind == env::verdict_kind::infra_error);
  CHECK(env::failed_baseline(told).kind == env::verdict_kind::infra_error);
  // A candidate that gives this cause does not blame the task.
  CHECK(candidate.explain(captured, "load").kind == env::verdict_kind::runtime_error);
}

TEST_CASE("without Landlock the host-entry form is refused where the sandbox is required") {
  env::layer_set layers = env::layer_set::all();
  CHECK(env::admit_host_entry(layers, true).has_value());
  layers.remove(layer::landlock);
  const auto refused = env::admit_host_entry(layers, true);
  REQUIRE_FALSE(refused.has_value());
  CHECK(test::contains(refused.error().message, "Landlock"));
  CHECK(test::contains(refused.error().message, "best_effort"));
  CHECK(env::admit_host_entry(layers, false).has_value());
  // CUDA needs all addresses: no limit of them stands in for a control group.
  layers.add(layer::landlock);
  layers.remove(layer::cgroup1);
  layers.remove(layer::cgroup2);
  const auto unbounded = env::admit_host_entry(layers, true);
  REQUIRE_FALSE(unbounded.has_value());
  CHECK(test::contains(unbounded.error().message, "memory bound"));
}
