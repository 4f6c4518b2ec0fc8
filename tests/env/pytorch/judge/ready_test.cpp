// Evaluations and the children that stand ready for them.
#include <charconv>
#include <fstream>
#include <set>

#include <signal.h>
#include <unistd.h>

#include "base/file.hpp"
#include "modules_fixture.hpp"

using namespace quern;
using namespace quern::test::modules;
namespace fs = std::filesystem;

namespace {

/// The rest of a line of /proc/PID/status that begins with `name`; empty: it is gone.
std::string status_of(int pid, std::string_view name) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name)) return line.substr(line.find_first_not_of("\t ", name.size()));
  return {};
}

std::vector<int> children_of(int parent) {
  std::vector<int> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    int pid = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    if (status_of(pid, "PPid:") == std::to_string(parent)) found.push_back(pid);
  }
  return found;
}

/// Children of this process's warm Python that wait: they are not locked in yet.
std::set<int> waiting() {
  std::set<int> found;
  for (const int own : children_of(getpid())) {
    const auto command = base::read_file("/proc/" + std::to_string(own) + "/cmdline");
    if (!command || command->find("zygote.py") == std::string::npos) continue;
    for (const int pid : children_of(own))
      if (status_of(pid, "Seccomp:") == "0" && status_of(pid, "State:").starts_with("S"))
        found.insert(pid);
  }
  return found;
}

/// Those that wait, once there are `count` of them.
std::set<int> waiting_soon(std::size_t count) {
  std::set<int> found = waiting();
  for (int i = 0; i < 1000 && found.size() != count; ++i) {
    usleep(20'000);
    found = waiting();
  }
  return found;
}

bool has_filter() {
  return probe_host().available.has(layer::seccomp);
}

}  // namespace

TEST_CASE("an evaluation takes the children that stand ready, and others stand in their place") {
  if (!has_filter()) return test::skip("no system call filter: what waits cannot be told apart");
  if (judge() == nullptr) return;
  const auto count = static_cast<std::size_t>(usual_children_ahead);
  REQUIRE(judged(candidate(honest)).kind == verdict_kind::ok);
  const auto before = waiting_soon(count);
  REQUIRE(before.size() == count);
  const auto v = judged(candidate(honest, "# timed\n"), task_of(layered), true);
  CAPTURE(summary(v));
  CHECK((v.kind == verdict_kind::ok || v.kind == verdict_kind::noisy));
  const auto after = waiting_soon(count);
  CHECK(after.size() == count);
  for (const int pid : before)
    CHECK_FALSE(after.contains(pid));
}

TEST_CASE("an evaluation whose ready children were killed is what it would have been") {
  if (!has_filter()) return test::skip("no system call filter: what waits cannot be told apart");
  if (judge() == nullptr) return;
  const auto count = static_cast<std::size_t>(usual_children_ahead);
  REQUIRE(judged(candidate(honest)).kind == verdict_kind::ok);
  for (const int signal : {SIGKILL, SIGSTOP}) {
    CAPTURE(signal);
    const auto ready = waiting_soon(count);
    REQUIRE(ready.size() == count);
    for (const int pid : ready)
      kill(pid, signal);
    const auto v = judged(candidate(honest, "# killed\n"));
    CAPTURE(summary(v));
    CHECK(v.kind == verdict_kind::ok);
  }
}

TEST_CASE("an evaluator that was told to has no child ahead") {
  if (!has_filter()) return test::skip("no system call filter: what waits cannot be told apart");
  if (judge() == nullptr) return;
  const auto others = waiting_soon(static_cast<std::size_t>(usual_children_ahead));
  auto without = options();
  without.children_ahead = 0;
  auto made = pytorch_evaluator::open(without);
  REQUIRE(made);
  evaluation_request request;
  request.subject = task_of(layered);
  request.source = candidate(honest);
  request.verify_only = true;
  CHECK((*made)->evaluate(request).kind == verdict_kind::ok);
  CHECK(waiting() == others);
}
