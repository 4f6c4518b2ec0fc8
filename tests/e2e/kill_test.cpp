// Every process of a run is killed, three times each, at random instants between the first issue
// and the last step; and the one that evaluators depend on, to see what that costs.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <signal.h>

#include "base/file.hpp"
#include "base/random.hpp"
#include "base/subprocess.hpp"
#include "e2e/recorded_fixture.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/run_directory.hpp"
#include "storage/run_lock.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

using base::operator""_s;
using storage::sample_state;

constexpr int kills_each = 3;
constexpr sample_state live_states[] = {sample_state::issued, sample_state::generated,
                                        sample_state::evaluated, sample_state::admitted,
                                        sample_state::consumed};

/// Samples in each live state at the instants of the kills, by target.
using hit_table = std::map<std::string, std::map<sample_state, std::int64_t>>;

void print(const hit_table& hits, std::uint64_t seed) {
  fmt::print("kills at random instants (seed {}), {} each; samples that were in flight:\n{:<12}",
             seed, kills_each, "target");
  for (const sample_state state : live_states)
    fmt::print("{:>11}", storage::to_string(state));
  fmt::print("\n");
  for (const auto& [target, states] : hits) {
    fmt::print("{:<12}", target);
    for (const sample_state state : live_states)
      fmt::print("{:>11}", states.contains(state) ? states.at(state) : 0);
    fmt::print("\n");
  }
}

/// One run and whoever is its control at the moment.
class victim_run {
 public:
  explicit victim_run(fs::path folder, std::int64_t steps = 16,
                      const std::vector<std::string>& more = {},
                      std::vector<std::string> environment = {})
      : folder_(std::move(folder)),
        run_(folder_ / "run"),
        steps_(steps),
        environment_(std::move(environment)) {
    std::vector<std::string> settings = {"observe.evaluation_set=false",
                                         "storage.checkpoint_every_steps=2"};
    // The cost model replaces the time: what is tested here is not how fast kernels are. Another
    // configuration is there for its evaluators.
    if (run_of_machine().empty()) settings.emplace_back("env.protocol=cost_model/1");
    settings.insert(settings.end(), more.begin(), more.end());
    start(train_command(run_, steps_, settings));
  }

  [[nodiscard]] const fs::path& run() const { return run_; }
  [[nodiscard]] bool over() { return control_->poll().has_value(); }

  /// False when the run came to its end before the victim was there.
  bool kill(const std::string& target, hit_table& hits) {
    const bool under_way = wait_until(120_s, [&] { return over() || !processes(target).empty(); });
    CHECK(under_way);
    const auto counts = counts_of(run_);
    if (over() || counts.in_flight() == 0) return false;
    for (const sample_state state : live_states)
      hits[target][state] += counts.of(state);
    if (target == "control") {
      kill_control();
    } else {
      const auto pids = processes(target);
      if (!pids.empty()) ::kill(pids.front(), SIGKILL);
    }
    return true;
  }

  /// Until a sample is in this state, at most twenty seconds.
  void wait_for(sample_state state) {
    wait_until(20_s, [&] { return over() || counts_of(run_).of(state) > 0; });
  }

  /// Samples that no evaluator could judge, so far, and those of their groups that were dropped
  /// with them.
  [[nodiscard]] std::int64_t lost() const {
    std::int64_t sum = 0;
    for (const auto& [reason, count] : drop_reasons_of(run_))
      if (reason == "infra_error" || reason == "group_mostly_lost") sum += count;
    return sum;
  }

  /// Kills the reference once samples are judged beside it: one that is killed before it was ready
  /// is not there yet, and is started anew in any case. False where the run was over.
  bool kill_reference() {
    std::vector<pid_t> found;
    const bool there =
        wait_until(60_s, [&] { return over() || !(found = processes("reference")).empty(); });
    if (!there || over()) return false;
    const auto judged = [&] {
      const auto counts = counts_of(run_);
      return counts.of(sample_state::evaluated) + counts.of(sample_state::admitted) +
             counts.of(sample_state::consumed) + counts.of(sample_state::trained);
    };
    const auto before = judged();
    wait_until(60_s, [&] { return over() || judged() >= before + 4; });
    killed_reference_ = found.front();
    return !over() && ::kill(killed_reference_, SIGKILL) == 0;
  }

  /// Whether another one stands since then.
  [[nodiscard]] bool reference_is_back() const {
    const auto found = processes("reference");
    return std::any_of(found.begin(), found.end(),
                       [&](pid_t one) { return one != killed_reference_; });
  }

  void end() {
    control_->send_signal(SIGTERM);
    CHECK(control_->wait(60_s));
  }

  void finish() {
    const auto end = control_->wait(600_s);
    CAPTURE(base::read_file(folder_ / "log").value_or(""));
    REQUIRE(end);
    CHECK(end->code == 0);
    check_law(run_);
    CHECK(version_of(run_) == steps_);
  }

  [[nodiscard]] std::vector<pid_t> processes(const std::string& target) const {
    if (target == "evaluator")
      return find_processes({"quern", "evaluator", "--connect", sockets()});
    if (target == "control") return find_processes({"quern", run_.string()});
    if (target == "reference") {
      std::vector<pid_t> found;
      for (const pid_t evaluator : processes("evaluator"))
        for (const pid_t one : find_children(evaluator, {"quern-torch", "reference"}))
          found.push_back(one);
      return found;
    }
    return find_processes({"quern-torch", target, run_.string()});
  }

 private:
  void start(std::vector<std::string> argv) {
    auto child = base::subprocess::start(
        {.argv = std::move(argv), .environment = environment_, .log = folder_ / "log"});
    REQUIRE(child);
    control_.emplace(std::move(*child));
  }

  /// Folder of this run's sockets: evaluators know the run only by it.
  [[nodiscard]] std::string sockets() const {
    const auto meta = base::read_file(run_ / "meta.json").value_or("");
    const auto parsed = base::parse_json(meta);
    return parsed ? parsed->value("sockets", "none") : "none";
  }

  void kill_control() {
    const std::string sockets_before = sockets();
    control_->send_signal(SIGKILL);
    REQUIRE(control_->wait(60_s));
    // An evaluator that nobody ends gives up after 30 s.
    CHECK(wait_until(20_s, [&] {
      return find_processes({"quern-torch", run_.string()}).empty() &&
             find_processes({"quern", "evaluator", sockets_before}).empty();
    }));
    // A child that it had forked and that has not come to exec has the lock until then.
    CHECK(wait_until(20_s, [&] { return !storage::is_locked(run_ / "LOCK").value(); }));
    start({program("quern"), "resume", run_.string()});
  }

  fs::path folder_;
  fs::path run_;
  std::int64_t steps_;
  std::vector<std::string> environment_;
  std::optional<base::subprocess> control_;
  pid_t killed_reference_ = 0;
};

}  // namespace

TEST_CASE("kill -9 of every process, three times each: runs end, the law holds, nothing is lost") {
  const std::uint64_t seed = std::random_device()();
  base::random_stream random(seed, "kills");
  std::vector<std::string> targets;
  for (int round = 0; round < kills_each; ++round) {
    std::vector<std::string> one = {"generator", "learner", "evaluator", "control"};
    for (std::size_t i = one.size(); i > 1; --i)
      std::swap(one[i - 1], one[random.below(i)]);
    targets.insert(targets.end(), one.begin(), one.end());
  }
  hit_table hits;
  std::size_t next = 0;
  int runs = 0;
  while (next < targets.size()) {
    REQUIRE(++runs <= 4);
    auto folder = base::temp_folder::make();
    REQUIRE(folder);
    victim_run one(folder->path());
    CHECK(wait_until(120_s, [&] { return counts_of(one.run()).issued_ever > 0 || one.over(); }));
    while (next < targets.size() && !one.over()) {
      // Half of the instants are drawn, half come when a drawn state is there to be hit: a process
      // that is killed as soon as it is back never gets beyond the first.
      if (next % 2 == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(random.between(200, 2500)));
      } else {
        one.wait_for(live_states[1 + random.below(4)]);
      }
      if (!one.kill(targets[next], hits)) break;
      ++next;
    }
    one.finish();
  }
  print(hits, seed);
  CHECK(hits.size() == 4);
  std::set<sample_state> hit;
  for (const auto& [target, states] : hits)
    for (const auto& [state, samples] : states)
      if (samples > 0) hit.insert(state);
  CHECK(hit.size() >= 3);
}

namespace {

/// Samples that were made again since a generator was gone, as the log of a run says.
std::int64_t made_again(const fs::path& log) {
  constexpr std::string_view before = "a generator is gone; ";
  const std::string text = base::read_file(log).value_or("");
  std::int64_t sum = 0;
  for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
    sum += std::strtoll(text.c_str() + at + before.size(), nullptr, 10);
  return sum;
}

std::int64_t ends_told(const fs::path& log, std::string_view how) {
  std::int64_t count = 0;
  for (const std::string& line : whole_lines_of(log))
    count += line.find(how) != std::string::npos ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("kill -9 of one of two generators: the other one goes on, and nothing is lost") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path log = folder->path() / "log";
  victim_run one(folder->path(), 24, {"actors.generators=2"});
  std::vector<pid_t> both;
  REQUIRE(wait_until(120_s, [&] {
    both = one.processes("generator");
    return one.over() || (both.size() == 2 && counts_of(one.run()).issued_ever > 0);
  }));
  REQUIRE_FALSE(one.over());
  const auto used = [&] {
    const auto counts = counts_of(one.run());
    return counts.of(sample_state::consumed) + counts.of(sample_state::trained);
  };
  // Until one is hit that has samples in the making. A sample that is seen as issued may be made by
  // the time of the kill: on a loaded host four kills in a row came too late once.
  constexpr int most_kills = 10;
  int kills = 0;
  while (kills < most_kills && made_again(log) == 0) {
    // A step later one that was started anew is at work again.
    const std::int64_t before = used();
    REQUIRE(wait_until(120_s, [&] { return one.over() || used() > before; }));
    one.wait_for(sample_state::issued);
    // The older one: of two with equal room it is given the next group.
    both = one.processes("generator");
    REQUIRE(both.size() == 2);
    const pid_t victim = std::min(both[0], both[1]), survivor = std::max(both[0], both[1]);
    REQUIRE(::kill(victim, SIGKILL) == 0);
    ++kills;
    const bool back = wait_until(60_s, [&] {
      both = one.processes("generator");
      return one.over() ||
             (both.size() == 2 && std::find(both.begin(), both.end(), victim) == both.end());
    });
    REQUIRE(back);
    REQUIRE_FALSE(one.over());
    CHECK(::kill(survivor, 0) == 0);
  }
  CHECK(made_again(log) > 0);
  one.finish();
  CHECK(one.lost() == 0);
  // Nobody else ended: neither the other generator nor the learner.
  CHECK(ends_told(log, "ended (killed by signal 9") == kills);
  CHECK(ends_told(log, "; starting it again") == kills);
}

TEST_CASE("a process that is frozen is killed and started again") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  victim_run one(folder->path(), 8);
  REQUIRE(wait_until(120_s, [&] { return counts_of(one.run()).issued_ever > 0 || one.over(); }));
  for (const std::string target : {"generator", "evaluator", "learner"}) {
    CAPTURE(target);
    std::vector<pid_t> frozen;
    REQUIRE(wait_until(60_s, [&] { return !(frozen = one.processes(target)).empty(); }));
    REQUIRE_FALSE(one.over());
    REQUIRE(::kill(frozen.front(), SIGSTOP) == 0);
    CHECK(wait_until(60_s, [&] {
      const auto alive = one.processes(target);
      return !alive.empty() && std::find(alive.begin(), alive.end(), frozen.front()) == alive.end();
    }));
  }
  one.finish();
}

TEST_CASE("a run of recorded completions that is killed goes on with the same ones") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path recorded = folder->path() / "recorded.jsonl";
  const std::vector<std::string> more = {"policy.engine=recorded",
                                         "policy.recorded=" + recorded.string(),
                                         "policy.max_new_tokens=400"};
  const auto config = config_of(train_command(folder->path() / "run", 8, more));
  const auto tasks = actors::task_book::make(config);
  REQUIRE(tasks);
  write_recorded(recorded, kernels_for(*tasks));
  victim_run one(folder->path(), 8, more);
  CHECK(wait_until(120_s, [&] { return counts_of(one.run()).issued_ever > 0 || one.over(); }));
  // From here on the run has its own.
  fs::remove(recorded);
  hit_table hits;
  for (const std::string target : {"generator", "control", "learner"}) {
    one.wait_for(sample_state::generated);
    CHECK(one.kill(target, hits));
  }
  one.finish();
  check_played(one.run(), config);
}

namespace {

/// Every group has a task of its own, which the reference prepares; nothing is tried again, so that
/// each failure of an evaluator shows. The small policy does not know these tasks.
std::vector<std::string> reference_at_work() {
  std::vector<std::string> settings{"tasks.count=64", "env.max_attempts=1"};
  if (run_of_machine().empty())
    settings.push_back("policy.model=" + (source_dir() / "policy/demo").string());
  return settings;
}

}  // namespace

TEST_CASE("kill -9 of the reference that evaluators judge with costs at most two samples") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  victim_run one(folder->path(), 8, reference_at_work());
  int kills = 0;
  while (kills < 3 && one.kill_reference())
    ++kills;
  one.finish();
  CHECK(kills > 0);
  MESSAGE(kills << " kills, " << one.lost() << " samples lost");
  CHECK(one.lost() <= 2 * kills);
}

TEST_CASE("without its restart the same kill costs every sample that follows") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  victim_run one(folder->path(), 1000, reference_at_work(), {"QUERN_FAULT_NO_REFERENCE_RESTART=1"});
  // Four kills that cost two samples each would not be seen.
  for (int kills = 0; kills < 4 && one.lost() <= 8; ++kills) {
    REQUIRE(one.kill_reference());
    // One that was killed before it was ready is started anew.
    wait_until(300_s, [&] { return one.over() || one.lost() > 8 || one.reference_is_back(); });
  }
  CHECK(one.lost() > 8);
  // It is said while it happens.
  CHECK(wait_until(60_s, [&] {
    return base::read_file(folder->path() / "log").value_or("").find("samples were lost") !=
           std::string::npos;
  }));
  one.end();
}
