// Candidates that want a reward without computing, and what gets through without the layer that
// stops them.
#include "env/judge/judge_layer.hpp"
#include "modules_fixture.hpp"
#include "tests/env/judge/layers_off.hpp"

using namespace quern::test;
using namespace quern::test::modules;

namespace {

std::string forward(const std::string& lines, const std::string& result = "y",
                    const std::string& before = {}) {
  return candidate(result, before, lines);
}

const std::string computes = "        y = " + std::string(honest) + "\n";

struct attack {
  const char* name;
  std::string source;
  std::vector<verdict_kind> caught;
  std::string reason = {};
};

void check_caught(const std::vector<attack>& attacks) {
  for (const attack& one : attacks) {
    const verdict v = judged(one.source);
    CAPTURE(one.name);
    CAPTURE(name_of(v.kind));
    CAPTURE(v.detail);
    CHECK(std::find(one.caught.begin(), one.caught.end(), v.kind) != one.caught.end());
    if (!one.reason.empty()) CHECK(v.reason == one.reason);
  }
}

/// The result of the first call, for ever.
const std::string remembers = forward(
    "        if not hasattr(self, 'kept'): self.kept = " + std::string(honest) + "\n", "self.kept");
/// By the address of the input.
const std::string by_address = forward(
    "        self.memo = getattr(self, 'memo', {})\n"
    "        if x.data_ptr() not in self.memo: self.memo[x.data_ptr()] = " +
        std::string(honest) + "\n",
    "self.memo[x.data_ptr()]");
/// By three elements of the input.
const std::string by_fingerprint = forward(
    "        self.memo = getattr(self, 'memo', {})\n"
    "        key = (float(x[0, 0]), float(x[1, 1]), float(x[2, 2]))\n"
    "        if key not in self.memo: self.memo[key] = " +
        std::string(honest) + "\n",
    "self.memo[key]");
/// Answers, and computes nothing: the process's own delivery is replaced.
const std::string delivers_nothing =
    forward("", "torch.zeros(24, 32)",
            "import module_child\nmodule_child.Child.deliver = lambda *a: None\n");
const std::string edits_inputs = forward("        x.zero_()\n" + computes);

}  // namespace

TEST_CASE("results that were not computed from this call's inputs are caught") {
  if (judge() == nullptr) return;
  using enum verdict_kind;
  check_caught({
      {"the first result for ever", remembers, {wrong_value, hack}},
      {"results by address", by_address, {wrong_value, hack}},
      {"results by a fingerprint of the inputs", by_fingerprint, {wrong_value, hack}},
      {"nothing is delivered", delivers_nothing, {wrong_value}},
      {"inputs are changed", edits_inputs, {hack}, "input_modified"},
      {"a tensor of a class of its own",
       forward(computes, "y.as_subclass(Mine)", "class Mine(torch.Tensor):\n    pass\n"),
       {wrong_dtype}},
      {"results of the call before",
       forward(computes + "        y, self.last = getattr(self, 'last', y), y\n"),
       {wrong_value, hack}},
      {"right while it is counted",
       forward("        self.n = getattr(self, 'n', 0) + 1\n" + computes,
               "y if self.n < 4 else y * 2"),
       {wrong_value, hack, nondeterministic}},
  });
}

TEST_CASE("what reaches out of the process is refused or ends it") {
  if (judge() == nullptr) return;
  using enum verdict_kind;
  const std::string quiet = "import os, socket, subprocess, threading, ctypes, mmap\n";
  check_caught({
      {"a file of the host", quiet + "open('/etc/passwd').read()\n", {compile_error}},
      {"files beside its own",
       quiet + "import glob\nassert [p for p in glob.glob('/tmp/*/reference.py')]\n",
       {compile_error}},
      {"a process", quiet + "subprocess.run(['/bin/true'])\n", {compile_error}},
      {"a fork", quiet + "os.fork()\n", {compile_error}},
      {"a socket", quiet + "socket.socket()\n", {compile_error}},
      {"a thread", quiet + "threading.Thread(target=print).start()\n", {compile_error}},
      {"its parent", quiet + "os.kill(os.getppid(), 9)\n", {compile_error}},
      {"another's memory",
       quiet + "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)\n",
       {compile_error}},
      {"a tracer",
       quiet + "assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0\n",
       {compile_error}},
      {"an end by itself", forward("        os._exit(0)\n", "x", quiet), {runtime_error}},
      {"an end by an exception", forward("        raise SystemExit(0)\n", "x"), {runtime_error}},
      {"a fault", forward("        ctypes.string_at(8)\n", "x", quiet), {runtime_error}},
      {"memory beside a result",
       forward(computes + "        import module_child, gc\n"
                          "        child = next(o for o in gc.get_objects() if isinstance(o, "
                          "module_child.Child))\n"
                          "        out = child.call_views(0)[1][0]\n"
                          "        ctypes.memset(out.data_ptr() + out.numel() * 4, 1, 4096)\n",
               "y", quiet),
       {hack, runtime_error}},
      {"an answer of its own on the socket",
       forward(computes + "        for fd in range(3, 64):\n"
                          "            try: os.write(fd, bytes(544))\n"
                          "            except OSError: pass\n",
               "y", quiet),
       {hack, runtime_error}},
      {"deep recursion",
       forward("        def f(): return f()\n        f()\n", "x"),
       {runtime_error}},
  });
}

TEST_CASE("without its layer each of these passes") {
  if (judge() == nullptr) return;
  const auto without = [](std::initializer_list<judge_layer> off, const std::string& source) {
    const without_layers removed(off);
    const verdict v = judged(source);
    CAPTURE(v.detail);
    CHECK(name_of(v.kind) == "ok");
  };
  without({judge_layer::fresh_content}, remembers);
  without({judge_layer::fresh_content}, by_address);
  without({judge_layer::fresh_content}, by_fingerprint);
  without({judge_layer::values, judge_layer::repeats}, delivers_nothing);
  without({judge_layer::read_only, judge_layer::values, judge_layer::repeats}, edits_inputs);
  without({judge_layer::repeats},
          candidate("y", "", computes + "        y = y + torch.rand(24, 32) * 2e-5\n"));
}
