// What a process with a GPU is asked, without a GPU: the commands reach Python as they were meant.
#include <csignal>
#include <cstdlib>
#include <string>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "env/lanes/pytorch/gpu/device_module.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using namespace quern::test;

namespace {

constexpr question_limits unhurried{60, 60};

/// Stands for a module's process: it tells by its failures what it was told.
const char* const stand_in = R"(
import ctypes, sys
sys.path[:0] = sys.argv[2:]
import module_handlers

class Memory:
    is_lent = True
    woken = 0

    def wake(self):
        self.woken += 1

class Child:
    memory = Memory()

    def import_region(self, region, fd, size, hint, writable_hint):
        import os
        if os.pread(fd, 5, 0) != b"piece":
            raise RuntimeError("another file")
        return hint if hint else 0x100000 * (region + 1)

    def plan(self, tensors, inputs, outputs, in_f64):
        self.told = [(t.address, tuple(t.shape[:t.rank])) for t in tensors], inputs, outputs

    def run(self, begin, end):
        raise RuntimeError(f"woken {self.memory.woken}, told {self.told}")

    def deliver_again(self):
        if self.memory.woken == 0:
            raise RuntimeError("asleep")

sys.exit(module_handlers.serve(ctypes.CDLL(sys.argv[1]), 3, Child()))
)";

class stand_in_process {
 public:
  explicit stand_in_process(const std::string& python) {
    auto ends = runner_link::make_pair();
    REQUIRE(ends);
    const std::string process = (source_dir() / "env/lanes/pytorch/process").string();
    const std::string build = (source_dir() / "env/lanes/pytorch/build").string();
    const std::string library = (program_dir() / "libquern_python.so").string();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends->second.get(), runner::socket_fd);
      ::setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
      ::execl(python.c_str(), python.c_str(), "-c", stand_in, library.c_str(), process.c_str(),
              build.c_str(), nullptr);
      ::_exit(127);
    }
    link_ = runner_link(std::move(ends->first), pid_);
  }
  stand_in_process(const stand_in_process&) = delete;
  stand_in_process& operator=(const stand_in_process&) = delete;
  ~stand_in_process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  template <class Body>
  answered<runner::reply> ask(runner::command what, const Body& body, int fd = -1) {
    return link_.ask(what, std::as_bytes(std::span(&body, 1)), fd, unhurried, nullptr);
  }
  answered<runner::reply> ask(runner::command what) {
    return link_.ask(what, {}, -1, unhurried, nullptr);
  }
  [[nodiscard]] runner_link& link() { return link_; }

 private:
  int pid_ = -1;
  runner_link link_;
};

module_places places_of_one_call() {
  tensor_layout in{"input 0", dtype::f32, {4, 5}, 20, 80, 0};
  tensor_layout out{"result", dtype::f32, {3}, 3, 12, 0};
  task_instance at;
  at.inputs = {in};
  at.outputs = {out};
  return module_places(std::move(at));
}

}  // namespace

TEST_CASE("commands for a GPU reach a module's process as they were meant") {
  const auto python = find_module_python();
  if (!python) return test::skip(python.error().message);
  stand_in_process process(python->string());
  const base::unique_fd file(::memfd_create("piece", 0));
  REQUIRE(::write(file.get(), "piece", 5) == 5);

  // Regions, by their numbers, where they were asked for.
  const auto inputs =
      process.ask(runner::command::gpu_import,
                  runner::gpu_import_request{QUERN_INPUTS, 0, 1 << 20, 0xABC000, 0}, file.get());
  CAPTURE(inputs ? "" : inputs.error().text);
  REQUIRE(inputs);
  CHECK(inputs->value == 0xABC000);
  REQUIRE(process.ask(runner::command::gpu_import,
                      runner::gpu_import_request{QUERN_OUTPUTS, 0, 1 << 16, 0, 0}, file.get()));
  CHECK_FALSE(process.ask(runner::command::gpu_import,
                          runner::gpu_import_request{QUERN_REGIONS, 0, 4096, 0, 0}, file.get()));

  // A plan names places in them: what leads outside, or into a region that is not there, is
  // refused.
  const module_places places = places_of_one_call();
  REQUIRE(process.ask(runner::command::gpu_call, places.call()));
  runner::gpu_call_request outside = places.call();
  outside.tensors[0].offset = 1 << 20;
  CHECK_FALSE(process.ask(runner::command::gpu_call, outside));
  outside = places.call();
  outside.tensors[1].file = QUERN_WORKSPACE;
  CHECK_FALSE(process.ask(runner::command::gpu_call, outside));
  outside = places.call();
  outside.tensors[1].file = 99;
  CHECK_FALSE(process.ask(runner::command::gpu_call, outside));

  // It is woken by `flush`, and by nothing else.
  const auto asleep = process.ask(runner::command::gpu_deliver);
  REQUIRE_FALSE(asleep);
  CHECK(contains(asleep.error().text, "asleep"));
  REQUIRE(process.link().flush(unhurried));
  CHECK(process.ask(runner::command::gpu_deliver));
  const auto told = process.link().run(0, 1, unhurried);
  REQUIRE_FALSE(told);
  CHECK(contains(told.error().text, "woken 1"));
  const std::string input = std::to_string(0xABC000 + places.inputs.offset(0));
  const std::string output = std::to_string(0x200000 + places.outputs.offset(0));
  CHECK(contains(told.error().text, "(" + input + ", (4, 5))"));
  CHECK(contains(told.error().text, "(" + output + ", (3,))"));
}
