// The runs of an ablation side by side, each a child with processors of its own.
#include <csignal>

#include <fmt/format.h>
#include <sched.h>

#include "actors/config/config_file.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "base/subprocess.hpp"
#include "tools/ablate/schedule.hpp"
#include "tools/cli/ablate.hpp"
#include "tools/cli/ablate_over.hpp"
#include "tools/cli/ablate_times.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// How often children are asked whether they have ended.
constexpr int look_every_ms = 100;

/// What this thread starts while it exists runs on these processors alone.
class own_processors {
 public:
  explicit own_processors(const std::vector<int>& processors) {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t own;
    CPU_ZERO(&own);
    for (const int one : processors)
      CPU_SET(one, &own);
    changed_ = sched_setaffinity(0, sizeof own, &own) == 0;
  }
  ~own_processors() {
    if (changed_) sched_setaffinity(0, sizeof before_, &before_);
  }
  own_processors(const own_processors&) = delete;
  own_processors& operator=(const own_processors&) = delete;

 private:
  cpu_set_t before_{};
  bool changed_ = false;
};

fs::path beside(const fs::path& folder, const char* ending) {
  fs::path file = folder;
  file += ending;
  return file;
}

/// `quern train FILE` for a run that begins, with its configuration in a file beside its folder;
/// `quern resume FOLDER` for one that goes on.
base::expected<std::vector<std::string>> command_of(const ablation_plan& plan, std::size_t number,
                                                    bool begun, const fs::path& out,
                                                    const ablation_place& place) {
  const fs::path folder = out / plan.runs[number].name;
  QUERN_TRY(const fs::path program, base::sibling_program("quern"));
  std::vector<std::string> argv = {program.string(), "resume", folder.string()};
  if (!begun) {
    QUERN_TRY(const actors::run_config config, beginning_of_run(plan, number, out));
    const fs::path file = beside(folder, ".yaml");
    QUERN_CHECK(base::make_folders(folder.parent_path()));
    QUERN_CHECK(base::write_file_atomic(file, actors::to_yaml(config)));
    argv = {program.string(), "train", file.string()};
  }
  for (const std::string& setting : settings_of(place)) {
    argv.emplace_back("--set");
    argv.push_back(setting);
  }
  return argv;
}

struct ablation_job {
  std::size_t run = 0;
  std::size_t place = 0;
  base::subprocess process;
  base::nanoseconds_t begun = 0;
};

/// The runs under way and those that are to come.
class side_by_side {
 public:
  side_by_side(const ablation_plan& plan, const std::vector<plan_state>& states, fs::path out,
               const std::vector<ablation_place>& places, bool more_follows)
      : plan_(plan),
        states_(states),
        out_(std::move(out)),
        places_(places),
        schedule_(plan, states),
        taken_(places.size(), false),
        more_follows_(more_follows) {}

  /// Until nothing is under way and nothing can begin; the code of the command.
  int make() {
    while (true) {
      while (!asked_ && begin_next()) {
      }
      if (jobs_.empty()) break;
      if (signals_.arrived(look_every_ms)) pause_all();
      for (std::size_t k = jobs_.size(); k-- > 0;)
        if (const auto end = jobs_[k].process.poll()) take_end(k, *end);
    }
    if (failed_ > 0) {
      tell(stderr, "runs that failed: {}, that are left: {}; the same command tries again\n",
           failed_, schedule_.left());
      return failed;
    }
    if (schedule_.left() == 0 && !(asked_ && more_follows_)) return done;
    tell(stderr, "{} runs are left: the same quern ablate command goes on\n", schedule_.left());
    return paused;
  }

 private:
  bool begin_next() {
    const auto free = std::ranges::find(taken_, false);
    if (free == taken_.end()) return false;
    const auto number = schedule_.next();
    if (!number) return false;
    const auto place = static_cast<std::size_t>(free - taken_.begin());
    if (auto begun = begin(*number, place); !begun) {
      report("ablate", base::in_context(plan_.runs[*number].name, begun.error()).value());
      schedule_.ended(*number, false);
      ++failed_;
    }
    return true;
  }

  base::status begin(std::size_t number, std::size_t place) {
    const fs::path folder = out_ / plan_.runs[number].name;
    QUERN_TRY(
        std::vector<std::string> argv,
        command_of(plan_, number, states_[number] == plan_state::begun, out_, places_[place]));
    base::subprocess_spec spec;
    spec.argv = std::move(argv);
    spec.log = beside(folder, ".log");
    QUERN_CHECK(base::make_folders(folder.parent_path()));
    const own_processors own(places_[place].processors);
    QUERN_TRY(base::subprocess process, base::subprocess::start(spec));
    taken_[place] = true;
    jobs_.push_back({number, place, std::move(process), clock_.now_ns()});
    tell(stderr, "{} begins on {}\n", plan_.runs[number].name, to_text(places_[place]));
    return {};
  }

  void pause_all() {
    if (!asked_) tell(stderr, "pausing {} runs\n", jobs_.size());
    asked_ = true;
    for (ablation_job& job : jobs_)
      job.process.send_signal(SIGINT);
  }

  void take_end(std::size_t job, const base::exit_state& end) {
    const std::size_t number = jobs_[job].run;
    const planned_run& run = plan_.runs[number];
    const fs::path folder = out_ / run.name;
    const double seconds = static_cast<double>(clock_.now_ns() - jobs_[job].begun) * 1e-9;
    taken_[jobs_[job].place] = false;
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(job));
    if (auto kept = add_seconds(out_, run.name, seconds); !kept) report("ablate", kept.error());
    const auto state = state_of_run(run, folder);
    const bool complete = state && *state == plan_state::complete;
    schedule_.ended(number, complete);
    if (complete) {
      tell(stderr, "{} is complete: {:.0f} s, {} of {} runs left\n", run.name, seconds,
           schedule_.left(), plan_.runs.size());
      return;
    }
    // Before a run can pause, what pauses it ends it.
    const bool in_order =
        end.signal == 0 ? end.code == done || end.code == paused : asked_ && end.signal == SIGINT;
    if (!in_order) ++failed_;
    const std::string log = beside(folder, ".log").string();
    if (in_order)
      tell(stderr, "{} ended after {:.0f} s and is not complete ({}): see {}\n", run.name, seconds,
           base::describe(end), log);
    else
      tell(stderr, "{} ended after {:.0f} s and is not complete ({}); it said, in {}: {}\n",
           run.name, seconds, base::describe(end), log, last_line_of_log(log));
  }

  const ablation_plan& plan_;
  const std::vector<plan_state>& states_;
  const fs::path out_;
  const std::vector<ablation_place>& places_;
  ablation_schedule schedule_;
  base::pause_signals signals_;
  base::steady_clock clock_;
  std::vector<bool> taken_;
  const bool more_follows_;
  std::vector<ablation_job> jobs_;
  std::size_t failed_ = 0;
  bool asked_ = false;
};

}  // namespace

int make_runs_side_by_side(const ablation_plan& plan, const std::vector<plan_state>& states,
                           const fs::path& out, const std::vector<ablation_place>& places,
                           bool more_follows) {
  return side_by_side(plan, states, out, places, more_follows).make();
}

}  // namespace quern::tools
