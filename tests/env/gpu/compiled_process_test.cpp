// The Python child of baseline `compile`, with a torch and a device that are none: every question
// that the evaluator asks is answered, and texts that are no references are refused.
#include "env/gpu/compiled_process.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/program.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "env/device/part_build.hpp"
#include "support/raw_link.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using test::contains;

namespace {

std::filesystem::path script() {
  return test::source_dir() / "env/reference/compiled_reference.py";
}

std::filesystem::path python() {
  const char* path = std::getenv("PATH");
  for (const auto folder : base::split(path != nullptr ? path : "/usr/bin", ':')) {
    const auto program = std::filesystem::path(folder) / "python3";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  return {};
}

/// The Python of this host with a torch that is none.
const compiling_python& fake() {
  static const compiling_python found = [] {
    ::setenv("PYTHONPATH", (test::source_dir() / "tests/env/gpu/fake_python").c_str(), 1);
    ::setenv("QUERN_PYTHON", python().c_str(), 1);
    auto got = find_compiling_python(script());
    ::unsetenv("QUERN_PYTHON");
    REQUIRE_MESSAGE(got.has_value(), (got ? "" : got.error().message));
    return std::move(*got);
  }();
  return found;
}

gpu_reference_start how_to_start() {
  auto how = compiled_reference_start(fake(), script(),
                                      base::program_folder() / "libquern_fake_window.so");
  how.open_wall_s = 60;
  return how;
}

spawner& children() {
  static const auto made = spawner::create(sandbox_mode::best_effort).value();
  return *made;
}

std::unique_ptr<gpu_reference_process> start() {
  if (python().empty()) {
    test::skip("no python3 here");
    return nullptr;
  }
  auto started = gpu_reference_process::start(children(), how_to_start());
  REQUIRE_MESSAGE(started.has_value(), (started ? "" : started.error().message));
  return std::move(*started);
}

/// A region of host memory in the place of the evaluator's on a device.
struct shared_region {
  explicit shared_region(std::size_t floats)
      : bytes(floats * sizeof(float)), fd(memfd_create("piece", MFD_CLOEXEC)) {
    REQUIRE(ftruncate(fd, static_cast<off_t>(bytes)) == 0);
    data = static_cast<float*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    REQUIRE(data != MAP_FAILED);
  }
  ~shared_region() {
    munmap(data, bytes);
    close(fd);
  }
  shared_region(const shared_region&) = delete;
  shared_region& operator=(const shared_region&) = delete;

  void lend(gpu_link& to, std::int32_t region) const {
    const runner::gpu_import_request body{region, 0, bytes, 0, 0};
    const auto told = to.raw().ask(runner::command::gpu_import, std::as_bytes(std::span(&body, 1)),
                                   fd, {60, 60}, nullptr);
    REQUIRE_MESSAGE(told.has_value(), (told ? "" : told.error().text));
  }

  std::size_t bytes;
  int fd;
  float* data;
};

/// x[4] at the beginning of the inputs; y[4] in slots of four floats.
runner::gpu_call_request call_of_four() {
  runner::gpu_call_request call;
  call.inputs = call.outputs = 1;
  for (const int t : {0, 1}) {
    call.tensors[static_cast<std::size_t>(t)].file = t == 0 ? QUERN_INPUTS : QUERN_OUTPUTS;
    call.tensors[static_cast<std::size_t>(t)].rank = 1;
    call.tensors[static_cast<std::size_t>(t)].shape[0] = 4;
  }
  call.tensors[1].stride = 4 * sizeof(float);
  return call;
}

window_order three_calls() {
  window_order order;
  order.settings.gate_timeout_ns = 77;
  for (const std::int32_t slot : {2, 0, 1}) {
    quern_order one{};
    one.key = static_cast<std::uint64_t>(10 * slot);
    one.slot = slot;
    order.calls.push_back(one);
  }
  return order;
}

std::string refusal(gpu_link& link, const std::string& text) {
  const auto taken = link.script(text);
  return taken ? "taken" : taken.error().text;
}

}  // namespace

TEST_CASE("a window of a compiled reference: content, times, results in their slots") {
  const auto process = start();
  if (!process) return;
  auto& link = process->link();
  const shared_region inputs(4), outputs(12);
  inputs.lend(link, QUERN_INPUTS);
  outputs.lend(link, QUERN_OUTPUTS);
  REQUIRE(link.tensors({}, 3).has_value());
  REQUIRE(refusal(link, "def forward(x):\n    return torch.negative(x)\n") == "taken");
  const auto told = link.call(call_of_four(), 60);
  REQUIRE_MESSAGE(told.has_value(), (told ? "" : told.error().text));
  for (int again = 1; again <= 2; ++again) {
    const auto times = link.window(three_calls(), 60);
    REQUIRE_MESSAGE(times.has_value(), (times ? "" : times.error().text));
    CHECK(times->call_ns == std::vector<std::uint32_t>{1000, 1001, 1002});
    CHECK(times->inside.queue_ns == static_cast<std::uint64_t>(again));
    CHECK(times->inside.run_ns == 3);
    const auto delivered = link.deliver(60);
    REQUIRE_MESSAGE(delivered.has_value(), (delivered ? "" : delivered.error().text));
    for (int slot = 0; slot < 3; ++slot)
      for (int i = 0; i < 4; ++i)
        CHECK(outputs.data[4 * slot + i] == -static_cast<float>(10 * slot + i));
    std::memset(outputs.data, 0, outputs.bytes);
  }
  CHECK(link.drop().has_value());
  CHECK(process->end() == "exit status 0");
}

TEST_CASE("what goes wrong is told in one line, and the process goes on") {
  const auto process = start();
  if (!process) return;
  auto& link = process->link();
  const auto window_says = [&](const std::string& operation) -> std::string {
    REQUIRE(refusal(link, "def forward(x):\n    return torch." + operation + "(x)\n") == "taken");
    if (const auto told = link.call(call_of_four(), 60); !told) return told.error().text;
    if (const auto ran = link.window(three_calls(), 60); !ran) return ran.error().text;
    const auto delivered = link.deliver(60);
    return delivered ? "" : delivered.error().text;
  };
  CHECK(contains(link.window(three_calls(), 60).error().text, "before a script"));
  CHECK(contains(link.deliver(60).error().text, "nothing was computed"));
  const shared_region inputs(4), outputs(12);
  inputs.lend(link, QUERN_INPUTS);
  outputs.lend(link, QUERN_OUTPUTS);
  REQUIRE(link.tensors({}, 3).has_value());
  CHECK(window_says("fails") == "RuntimeError: the operator says why");
  CHECK(contains(window_says("first_half"), "shape (2,), the task says (4,)"));
  CHECK(contains(window_says("half_type"), "float16, the task says float32"));
  CHECK(window_says("only_torchscript_has_it").empty());
  CHECK(window_says("negative").empty());
  auto wide = call_of_four();
  wide.in_f64 = 1;
  CHECK(contains(link.call(wide).error().text, "for timing alone"));
  CHECK(contains(link.tensors({}, 0).error().text, "no slots"));
}

namespace {

/// The script without a sandbox, and the socket on which it is asked.
class plain_process {
 public:
  plain_process() : plain_process(runner_link::make_pair().value()) {}
  ~plain_process() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    end();
  }
  plain_process(const plain_process&) = delete;
  plain_process& operator=(const plain_process&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  /// Waits for it; its exit status, or -1.
  int end() {
    int status = -1;
    if (pid_ > 0) waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string open() {
    const runner::gpu_open_request body{};
    return link.ask(runner::command::gpu_open, std::as_bytes(std::span(&body, 1)));
  }

  test::raw_link link;

 private:
  explicit plain_process(std::pair<base::unique_fd, base::unique_fd> ends)
      : link(std::move(ends.first)), folder_(base::temp_folder::make("quern-plain").value()) {
    const auto how = how_to_start();
    std::vector<char*> argv, environment;
    for (const auto& word : how.command)
      argv.push_back(const_cast<char*>(word.c_str()));
    for (const auto& setting : how.environment)
      environment.push_back(const_cast<char*>(setting.c_str()));
    argv.push_back(nullptr);
    environment.push_back(nullptr);
    const int socket = fcntl(ends.second.get(), F_DUPFD_CLOEXEC, 10);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      if (chdir(folder_.path().c_str()) == 0 && dup2(socket, runner::socket_fd) >= 0)
        execve(argv[0], argv.data(), environment.data());
      _exit(127);
    }
    close(socket);
  }

  base::temp_folder folder_;
  pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("the script refuses what every runner refuses, and ends as they do") {
  if (python().empty()) return test::skip("no python3 here");
  using runner::command;
  plain_process process;
  CHECK(contains(process.link.ask(command::gpu_drop, 0), "no device was opened"));
  REQUIRE(process.open() == "done");
  CHECK(process.open() == "unusable message");
  test::check_refusals(process.link, process.pid());
  SUBCASE("end of file") {
    process.link.close();
    CHECK(process.end() == 0);
  }
  SUBCASE("the evaluator leaves in the middle of a body") {
    process.link.send_with_ticket(1000, command::gpu_call, std::vector<std::byte>(8));
    process.link.close();
    CHECK(process.end() == 0);
  }
  SUBCASE("a message shorter than a header") {
    process.link.send_bytes(std::vector<std::byte>(sizeof(runner::header) - 1));
    CHECK_FALSE(process.link.answer().has_value());
    process.link.close();
    CHECK(process.end() == 0);
  }
  SUBCASE("a message longer than any command") {
    process.link.send_with_ticket(1000, command::script,
                                  std::vector<std::byte>(sizeof(runner::script_request) + 1));
    CHECK_FALSE(process.link.answer().has_value());
    process.link.close();
    CHECK(process.end() == 0);
  }
}

TEST_CASE("texts that Python would run and that are no references are refused") {
  const auto process = start();
  if (!process) return;
  auto& link = process->link();
  CHECK(contains(refusal(link, "import os\ndef forward(x):\n    return x\n"), "import"));
  const char* const bodies[] = {
      "x.__class__",         "torch._C.something",   "(lambda: x)()", "__builtins__",
      "open('/etc/passwd')", "[y async for y in x]", "f'{x}'",        "(y := x)",
  };
  for (const char* const body : bodies) {
    CAPTURE(body);
    const auto said = refusal(link, std::string("def forward(x):\n    return ") + body + "\n");
    // What is not there when it runs is refused when it is compiled.
    if (said == "taken") {
      const auto told = link.call(call_of_four(), 60);
      REQUIRE_FALSE(told.has_value());
      CHECK(contains(told.error().text, "NameError"));
    }
  }
  CHECK(contains(refusal(link, "x = 1\ndef forward(x):\n    return x\n"), "outside of functions"));
  CHECK(contains(refusal(link, "def other(x):\n    return x\n"), "no function forward"));
  CHECK(contains(refusal(link, "def forward(x:\n"), "line 1"));
  CHECK(contains(refusal(link, "@x\ndef forward(x):\n    return x\n"), "function forward"));
  // The control: annotations, helpers, loops and constants are what references have.
  CHECK(refusal(link,
                "def twice(x: Tensor) -> Tensor:\n    return torch.negative(torch.negative(x))\n"
                "def forward(x: Tensor, n: int = 3):\n    y = x\n    for i in range(2):\n"
                "        y = twice(y) if n > 1 else y\n    return y, float('inf') > 0.5\n") ==
        "taken");
}

TEST_CASE("a script of another build is refused by name, with both builds") {
  CHECK(check_compiled_reference(script()).has_value());
  const auto folder = base::temp_folder::make("quern-script-test").value();
  const auto other = folder.path() / "compiled_reference.py";
  const auto text = base::read_file(script()).value();
  REQUIRE(base::write_file_atomic(other, text + "\n").has_value());
  const auto refused = check_compiled_reference(other);
  REQUIRE_FALSE(refused.has_value());
  CHECK(contains(refused.error().message, other.string()));
  CHECK(contains(refused.error().message, "is of another build"));
  CHECK(contains(refused.error().message, compiled_reference_build()));
  CHECK(compiled_reference_build().size() == 16);
}

TEST_CASE("the script does not use a library of another build, and names both builds") {
  if (python().empty()) return test::skip("no python3 here");
  auto how = how_to_start();
  how.library = base::program_folder() / "libquern_old_window.so";
  how.command.at(2) = how.library.string();
  const auto started = gpu_reference_process::start(children(), how);
  REQUIRE_FALSE(started.has_value());
  const std::string& said = started.error().message;
  INFO(said);
  CHECK(contains(said, "libquern_old_window.so is of another build"));
  CHECK(contains(said, "0123456789abcdef"));
  CHECK(contains(said, cuda_part_build()));
}

TEST_CASE("hostile references: what TorchScript leaves out and Python would run is refused") {
  const auto process = start();
  if (!process) return;
  auto& link = process->link();
  const auto folder = test::source_dir() / "tests/hostile/references";
  int seen = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    CAPTURE(item.path().filename().string());
    const auto said = refusal(link, base::read_file(item.path()).value());
    CAPTURE(said);
    CHECK((contains(said, "no operator that computes") || contains(said, "name torch")));
    ++seen;
  }
  CHECK(seen == 4);
  // The controls: a branch of the same form, and an option that is text.
  CHECK(refusal(link,
                "def forward(x):\n    if x.size(0) > 0:\n        x = torch.div(x, 2, "
                "rounding_mode='floor')\n    return torch.negative(x)\n") == "taken");
}

namespace {

/// What gets past the checks of a text is Python: it tries what it should not, and what it must.
const char* const acts = R"(
import os, socket, subprocess, sys, ctypes
def tried(deed):
    try:
        deed()
        return "yes"
    except BaseException:
        return "no"
def compiled():
    with open("deed.c", "w") as out:
        out.write("int answer(void) { return 42; }")
    subprocess.run(["gcc", "-shared", "-fPIC", "deed.c", "-o", "deed.so"], check=True)
    assert ctypes.CDLL("./deed.so").answer() == 42
def connected():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), 1).close()
def wrote(path):
    open(path, "w").close()
    os.unlink(path)
print("read", tried(lambda: open("/etc/passwd").read()), file=sys.stderr)
print("tree", tried(lambda: open(sys.argv[1]).read()), file=sys.stderr)
print("network", tried(connected), file=sys.stderr)
print("host files", tried(lambda: wrote("/var/tmp/quern-hostile-was-here")), file=sys.stderr)
print("signal", tried(lambda: os.kill(int(sys.argv[2]), 0)), file=sys.stderr)
print("compiler", tried(compiled), file=sys.stderr)
print("random numbers", tried(lambda: open("/dev/urandom", "rb").read(8)), file=sys.stderr)
)";

}  // namespace

TEST_CASE("a compiled reference's process has compilers, and no network and files of the host") {
  if (python().empty()) {
    test::skip("no python3 here");
    return;
  }
  if (!children().layers().has(layer::mountns) || !children().layers().has(layer::netns)) {
    test::skip("this host has no namespaces for a sandbox");
    return;
  }
  const std::vector<std::string> command{fake().program.string(), "-c", acts,
                                         (test::source_dir() / "README.md").string(),
                                         std::to_string(getpid())};
  // The control: without the sandbox all of it works.
  const auto folder = base::temp_folder::make("quern-acts").value();
  const auto log = folder.path() / "said";
  auto plainly = command;
  plainly[2] = "import os; os.chdir('" + folder.path().string() + "')\n" + acts;
  auto free = base::subprocess::start({.argv = plainly, .log = log}).value();
  REQUIRE(free.wait(60'000'000'000).has_value());
  const auto freely = base::read_file(log).value();
  for (const char* deed :
       {"read", "tree", "network", "host files", "signal", "compiler", "random numbers"})
    CHECK(contains(freely, std::string(deed) + " yes"));

  auto how = how_to_start();
  how.command = command;
  const auto refused = gpu_reference_process::start(children(), how);
  REQUIRE_FALSE(refused.has_value());
  const std::string said = refused.error().message;
  CAPTURE(said);
  for (const char* deed : {"read", "tree", "network", "host files", "signal"})
    CHECK(contains(said, std::string(deed) + " no"));
  CHECK(contains(said, "compiler yes"));
  CHECK(contains(said, "random numbers yes"));
}

TEST_CASE("a host without such a Python says what was tried and what to do") {
  ::setenv("QUERN_PYTHON", "/bin/false", 1);
  const auto found = find_compiling_python(script());
  ::unsetenv("QUERN_PYTHON");
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().code == base::errc::unavailable);
  CHECK(contains(found.error().message, "tried /bin/false"));
  CHECK(contains(found.error().message, "QUERN_PYTHON"));
  if (python().empty()) return test::skip("no python3 here");
  CHECK(fake().versions == "torch 0-fake, triton 0-fake");
}
