// A run whose learner has two ranks: one is killed, one is frozen, in one the thread that computes
// stands still while the rest of it lives, and nobody is asked.
#include <sstream>

#include <fmt/format.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

struct thread_seen {
  pid_t id = 0;
  std::string name;
  std::int64_t used = 0, started = 0;  ///< ticks: of a processor; since the machine started
};

std::vector<thread_seen> threads_of(pid_t process) {
  std::vector<thread_seen> all;
  std::error_code gone;
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    const std::string stat = base::read_file(task.path() / "stat").value_or("");
    const std::size_t begin = stat.find('('), end = stat.rfind(')');
    if (begin == std::string::npos || end == std::string::npos) continue;
    thread_seen one{std::stoi(task.path().filename().string()),
                    stat.substr(begin + 1, end - begin - 1), 0, 0};
    std::istringstream words(stat.substr(end + 1));
    std::string word;
    // Behind the name utime and stime are the 12th and 13th word, the start is the 20th.
    for (int i = 1; words >> word; ++i) {
      if (i == 12 || i == 13) one.used += std::stoll(word);
      if (i == 20) one.started = std::stoll(word);
    }
    all.push_back(std::move(one));
  }
  return all;
}

/// The learner's own thread, which computes. Threads that it makes have its name until they get
/// another: it is the first of them. 0: none.
pid_t computing_thread(const std::vector<thread_seen>& all) {
  const thread_seen* first = nullptr;
  for (const thread_seen& one : all)
    if (one.name == "learner" && (first == nullptr || one.started < first->started)) first = &one;
  return first == nullptr ? 0 : first->id;
}

std::string text_of(const std::vector<thread_seen>& all) {
  std::string text;
  for (const thread_seen& one : all)
    text += fmt::format("{} {} ({} ticks)\n", one.id, one.name, one.used);
  return text;
}

/// A thread of another process that stands still for as long as this lives, as if it hung.
class stopped_thread {
 public:
  explicit stopped_thread(pid_t thread) : thread_(thread) {
    if (::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) != 0) return;
    held_ = ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0 &&
            ::waitpid(thread_, nullptr, __WALL) == thread_;
  }
  ~stopped_thread() {
    if (held_) ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  stopped_thread(const stopped_thread&) = delete;
  stopped_thread& operator=(const stopped_thread&) = delete;
  [[nodiscard]] bool held() const { return held_; }
  /// Whether its process was ended; to be asked until then, or that process is not gone for others.
  bool gone() {
    int state = 0;
    if (held_ && ::waitpid(thread_, &state, __WALL | WNOHANG) == thread_)
      held_ = !WIFEXITED(state) && !WIFSIGNALED(state);
    return !held_;
  }

 private:
  pid_t thread_;
  bool held_ = false;
};

/// Samples by state: whether a batch that needs all ranks has come.
std::string samples_of(const fs::path& run) {
  const auto counts = counts_of(run);
  std::string text;
  for (const auto state : {storage::sample_state::issued, storage::sample_state::generated,
                           storage::sample_state::evaluated, storage::sample_state::admitted,
                           storage::sample_state::consumed, storage::sample_state::trained})
    text += fmt::format("{} {} ", counts.of(state), storage::to_string(state));
  return text;
}

/// Lines with that word.
std::string lines_with(const std::string& text, std::string_view word) {
  std::string found, line;
  for (std::istringstream lines(text); std::getline(lines, line);)
    if (contains(line, word)) found += line + '\n';
  return found;
}

/// What the processes of a run have logged.
std::string logs_of(const fs::path& run) {
  std::string said;
  std::error_code none;
  for (const auto& log : fs::recursive_directory_iterator(run / "logs", none))
    said += base::read_file(log.path()).value_or("");
  return said;
}

}  // namespace

TEST_CASE("a rank of which only the thread that computes hangs is named, and the run goes on") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  constexpr std::int64_t steps = 16;
  auto control = base::subprocess::start(
      {.argv = train_command(
           run, steps,
           {"learner.ranks=2", "learner.rank_deadline_s=5", "observe.evaluation_set=false",
            "env.protocol=cost_model/1", "storage.checkpoint_every_steps=2"}),
       .log = folder.path() / "log"});
  REQUIRE(control);
  const auto over = [&] { return control->poll().has_value(); };
  const auto second_rank = [&] {
    return find_processes(
        {"quern-torch", "learner", run.string(), std::string("--rank") + '\0' + "1"});
  };
  REQUIRE(wait_until(120_s, [&] { return over() || version_of(run) >= 2; }));
  REQUIRE_FALSE(over());
  const auto victim = second_rank();
  REQUIRE(victim.size() == 1);
  {
    const auto threads = threads_of(victim.front());
    CAPTURE(text_of(threads));
    const pid_t computing = computing_thread(threads);
    REQUIRE(computing != 0);
    stopped_thread hung(computing);
    if (!hung.held()) {
      control->send_signal(SIGKILL);
      return skip("ptrace is not allowed here: no thread of another process can be stopped");
    }
    const base::steady_clock clock;
    const base::nanoseconds_t begin = clock.now_ns();
    CAPTURE(base::read_file(folder.path() / "log").value_or(""));
    CAPTURE(logs_of(run));
    const std::string samples_before = samples_of(run);
    CAPTURE(samples_before);
    // Idle, it is missed with the next batch, which a busy machine takes its time for.
    const bool ended = wait_until(180_s, [&] { return hung.gone() || over(); });
    CAPTURE(samples_of(run));
    REQUIRE(ended);
    fmt::print("the hung rank was ended {:.1f} s after its thread {} stood still, of\n{}",
               static_cast<double>(clock.now_ns() - begin) / 1e9, computing, text_of(threads));
  }
  REQUIRE_FALSE(over());
  const auto end = control->wait(300_s);
  CAPTURE(base::read_file(folder.path() / "log").value_or(""));
  REQUIRE(end);
  CHECK(end->code == 0);
  check_law(run);
  CHECK(version_of(run) == steps);
  // The other one says who it is, where it was last seen, and with which version.
  const std::string said = logs_of(run);
  CAPTURE(said);
  // A thread that stands still with a lock may take with it the one that gives signs of life.
  fmt::print("{}", lines_with(said, "rank 1 "));
  CHECK((contains(said, "rank 1 lives but has not moved for") ||
         contains(said, "rank 1 gives no sign of life for")));
  CHECK(contains(said, ", version "));
}

TEST_CASE(
    "two learner ranks: a dead and a frozen one cost the steps since the checkpoint, and one rank "
    "goes on from the shards of two") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  // Enough that the run is not over before the test has looked for the next one to be hit.
  constexpr std::int64_t steps = 20;
  auto control = base::subprocess::start(
      {.argv = train_command(
           run, steps,
           {"learner.ranks=2", "learner.rank_deadline_s=5", "observe.evaluation_set=false",
            "env.protocol=cost_model/1", "storage.checkpoint_every_steps=1"}),
       .log = folder.path() / "log"});
  REQUIRE(control);
  const auto ranks = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"quern-torch", "learner", run.string()};
    all.insert(all.end(), words.begin(), words.end());
    return find_processes(all);
  };
  const auto over = [&] { return control->poll().has_value(); };
  // Once the group has made a checkpoint: killed while the other rank waits for it or computes.
  REQUIRE(wait_until(120_s, [&] { return over() || version_of(run) >= 1; }));
  REQUIRE_FALSE(over());
  CHECK(ranks({}).size() == 2);
  // Arguments lie side by side with a zero byte between.
  const std::string rank_one = std::string("--rank") + '\0' + "1";
  const auto second = ranks({rank_one});
  REQUIRE(second.size() == 1);
  REQUIRE(::kill(second.front(), SIGKILL) == 0);
  // A checkpoint may have been on its way: the next one is of those that were started again.
  const std::int64_t before = version_of(run);
  std::vector<pid_t> frozen;
  REQUIRE(wait_until(120_s, [&] {
    frozen = ranks({rank_one});
    return over() || (version_of(run) > before && frozen.size() == 1 && frozen != second);
  }));
  REQUIRE_FALSE(over());
  CHECK(frozen != second);
  REQUIRE(::kill(frozen.front(), SIGSTOP) == 0);
  const auto end = control->wait(300_s);
  CAPTURE(base::read_file(folder.path() / "log").value_or(""));
  REQUIRE(end);
  CHECK(end->code == 0);
  check_law(run);
  CHECK(version_of(run) == steps);
  // The shards of both ranks lie in the checkpoint, with their manifest.
  const fs::path optimizer = run / "checkpoints" / fmt::format("v{:08}", steps) / "optimizer";
  for (const char* file :
       {"manifest.json", "shard-000-of-002.safetensors", "shard-001-of-002.safetensors"})
    CHECK(fs::exists(optimizer / file));
  const std::string said = base::read_file(folder.path() / "log").value_or("");
  CHECK(contains(said, "rank 1 of the learner is gone"));
  // Another number of ranks goes on from them.
  const auto resumed =
      run_to_end({program("quern"), "resume", run.string(), "--set", "learner.ranks=1", "--set",
                  "learner.devices=", "--set", fmt::format("learner.steps={}", steps + 1)},
                 folder.path() / "resumed");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(version_of(run) == steps + 1);
}
