// quern status, pause and stop: asks the control process of a run, or its files when none is
// there.
#include <deque>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/config/stages.hpp"
#include "actors/console.hpp"
#include "actors/decide/device_board.hpp"
#include "actors/decide/progress.hpp"
#include "actors/decide/role_report.hpp"
#include "actors/finish.hpp"
#include "actors/monitor.hpp"
#include "actors/sft_run.hpp"
#include "base/text.hpp"
#include "storage/jsonl.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"
#include "storage/run_lock.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {
namespace {

base::expected<base::json> ask(const storage::run_paths& paths, const std::string& command) {
  QUERN_TRY(const base::json meta, storage::read_meta(paths));
  // A copy of a run names the sockets of the original.
  QUERN_TRY(const bool locked, storage::is_locked(paths.lock()));
  if (!locked) return base::fail(base::errc::unavailable, "the run is not going on");
  QUERN_TRY(const std::string sockets, base::get<std::string>(meta, "sockets"));
  return actors::ask_console(sockets + "/console", {{"command", command}});
}

/// What the ledger alone tells.
base::expected<base::json> read_ledger(const storage::run_paths& paths) {
  QUERN_TRY(const auto db,
            storage::database::open(paths.database(), storage::database::access::read));
  QUERN_TRY(const auto ledger, storage::ledger::open(*db));
  QUERN_TRY(const auto counts, ledger->counts());
  QUERN_TRY(const auto position, ledger->position());
  QUERN_TRY(const auto reasons, ledger->drop_reasons());
  QUERN_TRY(const auto ages, ledger->ages());
  base::json states = base::json::object();
  for (const auto state : storage::all_sample_states) {
    states[std::string(storage::to_string(state))] = counts.of(state);
  }
  base::json by_age = base::json::object();
  for (const auto& [age, count] : ages.by_age)
    by_age[std::to_string(age)] = count;
  return base::json{{"epoch", position.epoch},
                    {"version", position.version},
                    {"checkpoint", position.checkpoint ? position.checkpoint->version : -1},
                    {"issued", counts.issued_ever},
                    {"samples", states},
                    {"law_holds", counts.law_holds()},
                    {"dropped", reasons},
                    {"ages", by_age},
                    {"mixed_versions", ages.mixed}};
}

void print_ledger(const base::json& rows, bool learns) {
  if (learns)
    fmt::print("  epoch {}, version {}, last checkpoint {}\n", rows["epoch"].get<std::int64_t>(),
               rows["version"].get<std::int64_t>(), rows["checkpoint"].get<std::int64_t>());
  fmt::print("  samples issued {}:", rows["issued"].get<std::int64_t>());
  for (const auto& [state, count] : rows["samples"].items()) {
    if (count.get<std::int64_t>() > 0) fmt::print(" {} {}", count.get<std::int64_t>(), state);
  }
  fmt::print("\n");
  if (!rows["dropped"].empty()) fmt::print("  dropped: {}\n", base::dump(rows["dropped"]));
  if (!learns) return;
  fmt::print("  steps behind when used: {}, with tokens of several versions: {}\n",
             base::dump(rows["ages"]), rows["mixed_versions"].get<std::int64_t>());
}

/// What the roles did when the run last went on: the newest steps of metrics.jsonl, as many as the
/// window of one that goes on holds. Nothing: it made none that tell.
std::optional<actors::loop_time> read_last_steps(const storage::run_paths& paths) {
  constexpr base::nanoseconds_t window = actors::role_times::options{}.window;
  std::deque<actors::loop_time> steps;
  actors::loop_time seen;
  const auto take = [&](const base::json& line) -> base::status {
    const auto step = actors::read_loop_time(line);
    if (!step) return {};
    steps.push_back(*step);
    seen += *step;
    while (seen.wall - steps.front().wall >= window) {
      seen -= steps.front();
      steps.pop_front();
    }
    return {};
  };
  (void)storage::read_jsonl_past_damage(paths.metrics(), take);
  return steps.empty() ? std::nullopt : std::optional(seen);
}

/// Of a run that goes on, as its control process says; else by its files.
std::optional<actors::loop_time> read_loop(const storage::run_paths& paths,
                                           const base::expected<base::json>& live) {
  if (live && live->contains("loop")) {
    if (const auto told = actors::read_loop_time((*live)["loop"])) return *told;
  }
  return read_last_steps(paths);
}

/// Shares of the last minutes do not tell that all devices went into quarantine just now.
actors::bottleneck held_back(const actors::loop_time& seen,
                             const base::expected<base::json>& live) {
  const bool out = live && live->contains("hosts") && actors::no_device_works((*live)["hosts"]);
  return out ? actors::held_back_by_quarantine() : actors::find_bottleneck(seen);
}

/// What is wrong with the policy: as the control process says, else by what it has written.
base::json read_warnings(const storage::run_paths& paths, const base::json& rows,
                         const base::expected<base::json>& live) {
  if (live && live->contains("warnings")) return (*live)["warnings"];
  return actors::success_so_far(paths.metrics(), rows["version"].get<std::int64_t>()).remarks();
}

void print_loop(const actors::loop_time& seen, const base::expected<base::json>& live) {
  const std::string span = actors::duration_text(seen.wall);
  const bool now = live && live->contains("loop");
  fmt::print("{}", actors::role_table(seen, now ? "last " + span : "last " + span + " of steps",
                                      held_back(seen, live)));
}

base::ordered_json loop_json(const std::optional<actors::loop_time>& seen,
                             const base::expected<base::json>& live) {
  if (!seen) return {};
  base::ordered_json told = actors::to_json(*seen);
  told["held_back"] = actors::to_json(held_back(*seen, live));
  return told;
}

/// What the files of a fine-tuning run tell; it has no ledger.
base::expected<base::json> read_sft(const storage::run_paths& paths) {
  QUERN_TRY(const auto config, actors::load_config(paths.config(), {}));
  QUERN_TRY(const auto at, actors::sft_position_of(config, paths));
  return base::json{{"stage", "sft"},
                    {"records", at.records},
                    {"checkpoint", at.step},
                    {"steps", config.learner.steps}};
}

void print_sft(const base::json& position) {
  fmt::print("  {} records in the corpus, last checkpoint {} of {} steps\n",
             position["records"].get<std::int64_t>(), position["checkpoint"].get<std::int64_t>(),
             position["steps"].get<std::int64_t>());
}

/// The goal is reached and the panel, if there is one, is measured.
bool is_complete(const storage::run_paths& paths) {
  const auto config = actors::load_config(paths.config(), {});
  if (!config) return false;
  const auto goal = actors::goal_of(*config, paths);
  return goal && goal->reached() && (config->stage == "sft" || actors::is_finished(*config, paths));
}

/// Of a search whose control process does not tell it.
std::string search_line(const storage::run_paths& paths) {
  const auto config = actors::load_config(paths.config(), {});
  if (!config) return {};
  const auto found = actors::search_of(*config, paths);
  return found ? fmt::format("  {}\n", found->summary()) : std::string();
}

std::string_view state_text(bool goes_on, bool complete) {
  if (goes_on) return "running";
  return complete ? "complete" : "not running (quern resume goes on)";
}

/// Asks the control process for an end and does not wait for it. `about`: what the command orders.
int order(const char* name, const char* about, int argc, char** argv) {
  CLI::App app(fmt::format(
      "quern {}: {}. Asks and returns at once: the run ends when its evaluations, or in stage sft "
      "the task or the step it is at, are finished. quern status RUN tells whether it still runs. "
      "A run that was asked before ends as it was asked first.",
      name, about));
  std::string run;
  app.add_option("run", run, "run directory")->required();
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto present = actors::present_stage(run);
  if (!present) return report(name, present.error());
  const storage::run_paths paths{*present};
  if (const auto meta = storage::read_meta(paths); !meta) return report(name, meta.error());
  const auto reply = ask(paths, name);
  if (!reply) {
    fmt::print(stderr,
               "quern {}: no control process answers for {}: {}; quern status {} tells where it "
               "stands, quern resume {} goes on\n",
               name, run, reply.error().message, run, run);
    return failed;
  }
  // An earlier build answers without `ok` of this meaning, but always true.
  if (!reply->value("ok", true)) {
    fmt::print(stderr,
               "quern {}: {} was asked to end otherwise before, and does; quern resume {} goes on "
               "when it has ended\n",
               name, run, run);
    return failed;
  }
  fmt::print("{}: asked to {}; it ends when what it is at is finished: quern status {} tells\n",
             run, name, run);
  return done;
}

}  // namespace

namespace {

/// Only where it is worth a person's attention.
void print_losses(const base::json& lost) {
  if (!lost.value("too_many", false)) return;
  fmt::print("  LOST {} of the last {} samples, because evaluators could not judge them: {}\n",
             lost.value("samples", 0), lost.value("of", 0), lost.value("newest", ""));
}

}  // namespace

int cmd_status(int argc, char** argv) {
  CLI::App app("quern status: where a run stands");
  std::string run;
  bool as_json = false;
  app.add_option("run", run, "run directory")->required();
  app.add_flag("--json", as_json, "one JSON object");
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto present = actors::present_stage(run);
  if (!present) return report("status", present.error());
  const storage::run_paths paths{*present};
  const auto meta = storage::read_meta(paths);
  if (!meta) return report("status", meta.error());
  const std::string stage = base::get<std::string>(*meta, "stage").value_or("");
  const bool tuning = stage == "sft", searching = stage == "search";
  const auto rows = tuning ? read_sft(paths) : read_ledger(paths);
  if (!rows) return report("status", rows.error());
  const auto locked = storage::is_locked(paths.lock());
  const bool running = locked && *locked;
  const auto live = running ? ask(paths, "status") : base::expected<base::json>(base::json());
  const auto loop = read_loop(paths, live);
  const base::json warnings = tuning ? base::json::array() : read_warnings(paths, *rows, live);
  if (as_json) {
    fmt::print("{}\n", base::dump(base::ordered_json{{"running", running},
                                                     {"live", live.value_or(base::json())},
                                                     {tuning ? "sft" : "ledger", *rows},
                                                     {"warnings", warnings},
                                                     {"loop", loop_json(loop, live)}}));
    return done;
  }
  fmt::print("{}: {}\n", present->string(), state_text(running, is_complete(paths)));
  if (live && live->contains("progress")) {
    fmt::print("  {}\n", (*live)["progress"].get<std::string>());
    if (!(*live)["verdicts"].empty()) {
      fmt::print("  verdicts {}\n", base::dump((*live)["verdicts"]));
    }
  }
  if (searching && (!live || !live->contains("progress"))) fmt::print("{}", search_line(paths));
  for (const base::json& warning : warnings)
    fmt::print("  warning: {}\n", warning.get<std::string>());
  if (live && live->contains("hosts")) fmt::print("{}", actors::host_table((*live)["hosts"]));
  if (live && live->contains("aside")) fmt::print("{}", actors::aside_table((*live)["aside"]));
  if (live && live->contains("lost")) print_losses((*live)["lost"]);
  if (loop) print_loop(*loop, live);
  tuning ? print_sft(*rows) : print_ledger(*rows, !searching);
  return done;
}

int cmd_pause(int argc, char** argv) {
  return order("pause",
               "end a run with a checkpoint and keep its samples in flight for quern resume", argc,
               argv);
}
int cmd_stop(int argc, char** argv) {
  return order(
      "stop",
      "end a run with a checkpoint, drop its samples in flight and make its closing report; "
      "quern resume goes on with new samples. A run of stage sft has no samples and no report: it "
      "ends with its checkpoint",
      argc, argv);
}

}  // namespace quern::tools
