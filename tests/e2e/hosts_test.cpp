// A run whose roles live on several hosts: addresses of the loopback, and a launch command that
// starts what ssh would on each of them. A rank, then the launch command of another one is killed,
// a process that is not admitted knocks, and nobody is asked.
#include <algorithm>

#include <signal.h>

#include "actors/node.hpp"
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

/// Notes the host, and gives the words to a shell as ssh does: the process has another number than
/// the command that stands for it, and outlives a kill of that.
constexpr const char* launcher = R"(#!/bin/sh
echo "$1" >> "$0.calls"
shift
sh -c "$*"
)";

/// As `launcher`, with a memory file system of its own for each process, as each host has.
constexpr const char* launcher_apart = R"(#!/bin/sh
shift
if unshare -rm true; then
  exec unshare -rm sh -c "mount -t tmpfs none /dev/shm && $*"
fi
echo "no namespaces here: memory is shared" >> "$0.calls"
sh -c "$*"
)";

std::string argument_after(const std::vector<std::string_view>& argv, std::string_view option) {
  const auto at = std::find(argv.begin(), argv.end(), option);
  return at == argv.end() || at + 1 == argv.end() ? "" : std::string(*(at + 1));
}

/// Of the process of a rank, not of what launched it: words lie side by side, a zero byte between.
std::string rank_words(const char* rank) {
  return std::string("--rank") + '\0' + rank;
}

actors::generator_ref::behavior_type idle_generator(actors::generator_ref::pointer) {
  return {
      [](const actors::generate_group&) {},
      [](const actors::weights_ready&) {},
      [](const actors::cancel_generation&) {},
      [](const actors::weights_arrived&) {},
      [](const actors::tick&) {},
  };
}

/// A node of this build that the run has not started: orders it to end, in every way that control
/// knows, then asks to be let in. Gives the answer.
std::string shout_at(const std::string& control) {
  actors::node self;
  const auto orchestrator =
      actors::connect_to_control(self.system(), actors::parse_address(control).value());
  REQUIRE(orchestrator);
  const auto idle = self.system().spawn(idle_generator);
  self.owns(idle);
  caf::scoped_actor someone(self.system());
  caf::anon_send(*orchestrator, actors::drain{static_cast<std::uint8_t>(actors::ending::stop)});
  someone->send(*orchestrator, actors::drain{static_cast<std::uint8_t>(actors::ending::pause)});
  someone->send(*orchestrator, actors::fatal_problem{"unadmitted", "all is lost"});
  someone->send(*orchestrator, actors::step_done{});
  std::string answer = "let in";
  // Messages of one node come in order: when this is answered, those before were read.
  someone->request(*orchestrator, std::chrono::seconds(60), actors::hello{}, idle)
      .receive([](const actors::welcome&) {},
               [&](const caf::error& problem) { answer = self.system().render(problem); });
  return answer;
}

}  // namespace

TEST_CASE("ranks, generator and evaluator on hosts of their own, with weights over links") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  const std::string launch = (folder.path() / "launch").string();
  REQUIRE(base::write_file_atomic(launch, launcher));
  fs::permissions(launch, fs::perms::owner_all);
  // Enough that it goes on while a process that is not admitted is started, which takes as long as
  // a few steps.
  constexpr std::int64_t steps = 24;
  auto control = base::subprocess::start(
      {.argv = train_command(
           run, steps,
           {"learner.ranks=2", "learner.hosts=127.0.0.2,127.0.0.3",
            "actors.generator_host=127.0.0.4", "env.evaluator_hosts=127.0.0.5",
            "cluster.address=127.0.0.1", "cluster.launch=" + launch + " {host} {command}",
            "observe.evaluation_set=false", "env.protocol=cost_model/1",
            "storage.checkpoint_every_steps=1"}),
       .log = folder.path() / "log"});
  REQUIRE(control);
  const auto over = [&] { return control->poll().has_value(); };
  const auto said = [&] { return base::read_file(folder.path() / "log").value_or(""); };
  const auto reached = [&](std::int64_t version) {
    REQUIRE(wait_until(300_s, [&] { return over() || version_of(run) >= version; }));
    const std::string log = said();
    CAPTURE(log);
    REQUIRE_FALSE(over());
  };
  const auto only = [&](std::vector<std::string> words) {
    words.push_back(run.string());
    const auto found = find_processes(words);
    REQUIRE(found.size() == 1);
    return found.front();
  };
  reached(1);
  const std::string line =
      base::read_file(fmt::format("/proc/{}/cmdline", only({"quern-torch", rank_words("1")})))
          .value();
  const auto argv = base::split(line, '\0');
  CHECK(argument_after(argv, "--host") == "127.0.0.3");
  // Whoever is not given the run's secret is not let in, and is told no more than that.
  auto unadmitted = base::subprocess::start(
      {.argv = {program("quern-torch"), "generator", "--control", argument_after(argv, "--control"),
                "--config", (run / "config.yaml").string(), "--start", "3"},
       .log = folder.path() / "unadmitted",
       .input = "0123456789abcdef0123456789abcdef\n"});
  REQUIRE(unadmitted);
  CHECK(contains(shout_at(argument_after(argv, "--control")), "does not know the secret"));
  const pid_t killed = only({"quern-torch", rank_words("1")});
  REQUIRE(::kill(killed, SIGKILL) == 0);
  // A checkpoint may be on its way: the next one is of those that were started again.
  const std::int64_t before = version_of(run);
  const auto sent_away = unadmitted->wait(60_s);
  REQUIRE(sent_away);
  CHECK(sent_away->code == 1);
  CHECK(contains(base::read_file(folder.path() / "unadmitted").value_or(""),
                 "does not know the secret of this run"));
  REQUIRE(wait_until(300_s, [&] {
    const auto again = find_processes({"quern-torch", rank_words("1"), run.string()});
    return over() || (again.size() == 1 && again.front() != killed);
  }));
  reached(before + 2);
  CHECK_FALSE(find_processes({"evaluator", run.string()}).empty());
  const pid_t rank_zero = only({"quern-torch", rank_words("0")});
  REQUIRE(::kill(only({launch + '\0' + "127.0.0.2"}), SIGKILL) == 0);
  const auto end = control->wait(400_s);
  const std::string log = said();
  CAPTURE(log);
  for (const char* role : {"learner", "learner-1", "generator", "evaluator-0"})
    CAPTURE(base::read_file(run / "logs" / (std::string(role) + ".log")).value_or(""));
  REQUIRE(end);
  CHECK(end->code == 0);
  check_law(run);
  CHECK(version_of(run) == steps);
  CHECK(contains(log, "rank 1 of the learner is gone"));
  CHECK(contains(log, "rank 0 of the learner is gone"));
  CHECK(contains(log, "a generator is refused: it does not know the secret"));
  // What lost its launch command has ended with its input.
  CHECK(::kill(rank_zero, 0) != 0);
  CHECK(find_processes({"quern-torch", run.string()}).empty());
  // One elsewhere knows the run by the keys in its folder.
  CHECK(find_processes({"evaluator", run.string()}).empty());
  CHECK(contains(base::read_file(run / "logs" / "learner.log").value_or(""),
                 "a link for weights is open at tcp://127.0.0.2:"));
  const std::string calls = base::read_file(launch + ".calls").value_or("");
  for (const char* host : {"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"})
    CHECK(contains(calls, host));
  CHECK_FALSE(contains(calls, "127.0.0.1"));
}

TEST_CASE("rank 0 and generator on one host that is not control's have no memory of control's") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  const std::string launch = (folder.path() / "launch").string();
  REQUIRE(base::write_file_atomic(launch, launcher_apart));
  fs::permissions(launch, fs::perms::owner_all);
  const auto done = run_to_end(
      train_command(
          run, 3,
          {"learner.hosts=127.0.0.2", "learner.devices=", "actors.generator_host=127.0.0.2",
           "cluster.address=127.0.0.1", "cluster.launch=" + launch + " {host} {command}",
           "observe.evaluation_set=false", "env.protocol=cost_model/1"}),
      folder.path() / "log");
  CAPTURE(done.output);
  const auto said = [&](const char* role) {
    return base::read_file(run / "logs" / role).value_or("");
  };
  CAPTURE(said("learner.log"));
  CAPTURE(said("generator.log"));
  CHECK(done.code == 0);
  CHECK(version_of(run) == 3);
  CHECK(contains(said("learner.log"), "a link for weights is open at tcp://127.0.0.2:"));
  if (fs::exists(launch + ".calls")) skip("no namespaces: /dev/shm was shared");
}
