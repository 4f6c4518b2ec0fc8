// The texts of the candidates.
#include "bad_candidates.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "modules_fixture.hpp"

namespace quern::test::modules {
namespace {

using enum env::verdict_kind;
using env::judge_layer;

/// Forward with a result in a variable `y`.
std::string result_with(const std::string& lines, const std::string& result = "y") {
  return candidate(result, "", "        y = " + std::string(honest) + "\n" + lines);
}

std::string forward_with(const std::string& lines, const std::string& result = "y",
                         const std::string& before = {}) {
  return candidate(result, before, lines);
}

const std::string computes_y = "        y = " + std::string(honest) + "\n";
const std::string imports = "import os, socket, subprocess, threading, time, ctypes, glob\n";

/// Finds the tensors of its process's outputs.
const std::string finds_outputs =
    "        import module_child, gc\n"
    "        child = next(o for o in gc.get_objects() if isinstance(o, module_child.Child))\n"
    "        out = child.call_views(0)[1][0]\n";

/// A deed at its import, and honest behind it.
std::string after(const std::string& deed) {
  return candidate(honest, imports + deed);
}

}  // namespace

std::vector<bad_candidate> wrong_candidates() {
  return {
      {"a factor",
       candidate("torch.relu(self.linear(x)) * self.scale * factor * 1.01 + self.shift"),
       {wrong_value}},
      {"zeros", candidate("torch.zeros(24, 32)"), {wrong_value}},
      {"nothing written", candidate("torch.empty(24, 32).fill_(float('nan'))"), {wrong_value}},
      {"one element", result_with("        y[3, 5] += 0.01\n"), {wrong_value}},
      {"half precision",
       candidate("(torch.relu(self.linear.half()(x.half())) * self.scale.half() * "
                 "factor + self.shift.half()).float()"),
       {wrong_value}},
      {"right on small numbers alone",
       result_with("        y = y if float(x.max()) < 2 else y * 1.5\n"),
       {wrong_value},
       "large"},
      {"weights of its own",
       candidate("torch.relu(self.mine(x)) * self.scale * factor + self.shift", "",
                 "        if not hasattr(self, 'mine'): self.mine = nn.Linear(32, 32)\n"),
       {wrong_value}},
      {"a shape", result_with("", "y[:12]"), {wrong_shape}, "(12, 32)"},
      {"a transposed shape", result_with("", "y.t()"), {wrong_shape}},
      {"two results", result_with("", "(y, y)"), {wrong_shape}, "2 results"},
      {"no result", result_with("", "None"), {wrong_shape}},
      {"a list of numbers", result_with("", "y.tolist()"), {wrong_shape}},
      {"a type", result_with("", "y.double()"), {wrong_dtype}, "float64"},
      {"whole numbers", result_with("", "y.to(torch.int64)"), {wrong_dtype}},
      {"a sparse tensor", result_with("", "y.to_sparse()"), {wrong_dtype}},
      {"an exception",
       result_with("        raise ValueError('no luck')\n"),
       {runtime_error},
       "ValueError: no luck"},
      {"a name that is not there", candidate("undefined_name"), {runtime_error}, "undefined_name"},
      {"a device that is not there", result_with("", "y.cuda()"), {runtime_error}},
      {"too much memory", result_with("        torch.ones(1 << 36)\n"), {runtime_error}},
      {"a loop without end", result_with("        while True: pass\n"), {timeout}}};
}

std::vector<bad_candidate> malformed_candidates() {
  return {
      {"nothing", "", {compile_error}, "no class ModelNew"},
      {"no module", "class ModelNew(:\n", {compile_error}, "SyntaxError"},
      {"no class", "import torch\n", {compile_error}, "no class ModelNew"},
      {"prose", "Here is the kernel:\n", {compile_error}, "SyntaxError"},
      {"a module that is not installed",
       "import no_such_module\n" + candidate(honest),
       {compile_error},
       "no_such_module"},
      {"an exception at its import", "raise RuntimeError('early')\n", {compile_error}, "early"},
      {"it ends itself at its import", "import sys\nsys.exit(0)\n", {compile_error}, "SystemExit"},
      {"a constructor that fails",
       [] {
         std::string text = candidate(honest);
         return text.replace(text.find("self.linear = "), 14, "raise KeyError(1)  # ");
       }(),
       {runtime_error},
       "KeyError"},
      {"a constructor without arguments",
       [] {
         std::string text = candidate(honest);
         return text.replace(text.find("(self, features)"), 16, "(self)");
       }(),
       {runtime_error},
       "positional argument"},
      {"a forward without arguments",
       [] {
         std::string text = candidate(honest);
         return text.replace(text.find("(self, x, factor)"), 17, "(self)");
       }(),
       {runtime_error},
       "positional argument"}};
}

std::vector<bad_candidate> hostile_candidates() {
  return {
      {"the first result for ever",
       forward_with(
           "        if not hasattr(self, 'kept'): self.kept = " + std::string(honest) + "\n",
           "self.kept"),
       {wrong_value, hack},
       {},
       {},
       {judge_layer::fresh_content}},
      {"results by address",
       forward_with("        self.memo = getattr(self, 'memo', {})\n"
                    "        if x.data_ptr() not in self.memo: self.memo[x.data_ptr()] = " +
                        std::string(honest) + "\n",
                    "self.memo[x.data_ptr()]"),
       {wrong_value, hack},
       {},
       {},
       {judge_layer::fresh_content}},
      {"results by a fingerprint of the inputs",
       forward_with("        self.memo = getattr(self, 'memo', {})\n"
                    "        key = (float(x[0, 0]), float(x[1, 1]), float(x[2, 2]))\n"
                    "        if key not in self.memo: self.memo[key] = " +
                        std::string(honest) + "\n",
                    "self.memo[key]"),
       {wrong_value, hack},
       {},
       {},
       {judge_layer::fresh_content}},
      {"nothing is delivered",
       forward_with("", "torch.zeros(24, 32)",
                    "import module_child\nmodule_child.Child.deliver = lambda *a: None\n"),
       {wrong_value},
       {},
       {},
       {judge_layer::values, judge_layer::repeats}},
      {"inputs are changed",
       forward_with("        x.zero_()\n" + computes_y),
       {hack},
       {},
       "input_modified",
       {judge_layer::read_only, judge_layer::values, judge_layer::repeats}},
      {"noise within the tolerance",
       result_with("        y = y + torch.rand(24, 32) * 2e-5\n"),
       {nondeterministic},
       {},
       {},
       {judge_layer::repeats}},
      {"a tensor of a class of its own",
       forward_with(computes_y, "y.as_subclass(Mine)", "class Mine(torch.Tensor):\n    pass\n"),
       {wrong_dtype}},
      {"results of the call before",
       forward_with(computes_y + "        y, self.last = getattr(self, 'last', y), y\n"),
       {wrong_value, hack},
       {},
       {},
       {judge_layer::fresh_content}},
      {"right while it is counted",
       forward_with("        self.n = getattr(self, 'n', 0) + 1\n" + computes_y,
                    "y if self.n < 4 else y * 2"),
       {wrong_value, hack, nondeterministic},
       {},
       {},
       {judge_layer::values, judge_layer::repeats}},
      {"an end by itself", forward_with("        os._exit(0)\n", "x", imports), {runtime_error}},
      {"an end by an exception",
       forward_with("        raise SystemExit(0)\n", "x"),
       {runtime_error}},
      {"a fault", forward_with("        ctypes.string_at(8)\n", "x", imports), {runtime_error}},
      {"pages beside a result",
       forward_with(computes_y + finds_outputs +
                        "        ctypes.memset(out.data_ptr() + out.numel() * 4, 1, 4096)\n",
                    "y", imports),
       {hack, runtime_error}},
      {"bytes behind a result",
       forward_with(computes_y + finds_outputs +
                        "        ctypes.memset(out.data_ptr() + out.numel() * 4, 1, 4)\n",
                    "y", imports),
       {hack},
       {},
       "overrun"},
      {"bytes before a result",
       forward_with(
           computes_y + finds_outputs + "        ctypes.memset(out.data_ptr() - 4, 1, 4)\n", "y",
           imports),
       {hack},
       {},
       "overrun",
       {judge_layer::canaries}},
      {"a message that is no answer",
       forward_with(computes_y + "        for fd in range(3, 64):\n"
                                 "            try: os.write(fd, bytes(8))\n"
                                 "            except OSError: pass\n",
                    "y", imports),
       {hack},
       {},
       "forged_result",
       {judge_layer::messages, judge_layer::values, judge_layer::repeats,
        judge_layer::late_answers}},
      {"an answer of its own",
       forward_with(computes_y + "        for fd in range(3, 64):\n"
                                 "            try: os.write(fd, bytes(512))\n"
                                 "            except OSError: pass\n",
                    "y", imports),
       {hack},
       {},
       "forged_result",
       {judge_layer::messages, judge_layer::values, judge_layer::repeats,
        judge_layer::late_answers}},
      {"deep recursion",
       forward_with("        def f(): return f()\n        f()\n", "x"),
       {runtime_error}},
  };
}

std::vector<bad_candidate> reaching_candidates(const reached_for& what) {
  const std::string parent = "os.getppid()";
  return {
      {"a file of the host", after("open('/etc/passwd').read()\n"), {compile_error}},
      {"the text of the reference",
       after(fmt::format("text = open(glob.glob('{}/quern-module*/reference.py')[0]).read()\n"
                         "assert 'class Model(' in text\n",
                         what.folder)),
       {compile_error}},
      {"writing outside of its folder",
       after(fmt::format("open('{}/quern-left-behind', 'w').write('x')\n", what.folder)),
       {compile_error}},
      {"a process", after("subprocess.run(['/bin/true'], check=True)\n"), {compile_error}},
      {"a fork",
       after("pid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)\n"),
       {compile_error}},
      {"the network",
       after(fmt::format("socket.create_connection(('127.0.0.1', {}), 5).close()\n", what.port)),
       {compile_error}},
      {"a signal to its parent", after("os.kill(" + parent + ", 0)\n"), {compile_error}},
      {"memory of its parent",
       after("maps = open(f'/proc/{" + parent +
             "}/maps').readline()\n"
             "memory = open(f'/proc/{" +
             parent +
             "}/mem', 'rb')\n"
             "memory.seek(int(maps.split('-')[0], 16))\n"
             "assert len(memory.read(4)) == 4\n"),
       {compile_error}},
      // PTRACE_SEIZE, which stops nobody.
      {"a tracer of its parent",
       after("libc = ctypes.CDLL(None)\n"
             "assert libc.ptrace(0x4206, " +
             parent + ", None, None) == 0\n"),
       {compile_error}},
      {"a thread before its calls",
       after("thread = threading.Thread(target=lambda: None)\nthread.start()\nthread.join()\n"),
       {compile_error}},
      {"a thread that stays behind its calls",
       forward_with("        if not hasattr(self, 'other'):\n"
                    "            self.other = threading.Thread(target=time.sleep, args=(600,), "
                    "daemon=True)\n"
                    "            self.other.start()\n" +
                        computes_y,
                    "y", imports),
       {runtime_error},
       {},
       {},
       {judge_layer::thread_count}},
  };
}

int listening_port() {
  static const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  static const bool listens =
      ::bind(socket, reinterpret_cast<const sockaddr*>(&place), length) == 0 &&
      ::listen(socket, 4) == 0;
  REQUIRE(listens);
  REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&place), &length) == 0);
  return ntohs(place.sin_port);
}

}  // namespace quern::test::modules
