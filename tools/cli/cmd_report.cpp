// quern report: what a run says at its end, once more, and its page: in a file, or served while the
// run goes on.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include <sys/stat.h>
#include <unistd.h>

#include "actors/config/begun_with.hpp"
#include "actors/config/preflight.hpp"
#include "actors/finish.hpp"
#include "actors/inspect/ledger_state.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/text.hpp"
#include "base/write_signals.hpp"
#include "storage/database.hpp"
#include "storage/run_directory.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/input.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"
#include "tools/page/page.hpp"
#include "tools/page/page_server.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// The tasks of the run; checked as for a resume where they are to be judged again.
base::expected<actors::task_book> tasks_of(const actors::run_config& config, const fs::path& folder,
                                           actors::missing_evaluation_set how) {
  if (how == actors::missing_evaluation_set::measure)
    return actors::preflight(config, folder, actors::run_beginning::resuming);
  return actors::task_book::make(config);
}

/// A run whose files can be read.
struct readable_run {
  bool goes_on = false;
  actors::run_config config;  ///< where it does not go on
  bool begun = false;         ///< the same: it has a ledger
};

/// Of a run that goes on: whether this build reads its ledger, where there is one. Its writer has
/// the log open, so that a reader leaves nothing behind; to read all of it would keep the log from
/// being emptied.
base::status check_growing_ledger(const storage::run_paths& paths) {
  if (!actors::has_ledger(paths).value_or(false)) return {};
  QUERN_TRY(const auto db,
            storage::database::open(paths.database(), storage::database::access::read));
  return {};
}

/// What report and page rest on, before anything of the run is changed: where it is damaged or of a
/// later build, its lock and meta.json, too, stay as they are.
base::expected<readable_run> read_run_files(const fs::path& folder) {
  const storage::run_paths paths{folder};
  const auto goes_on = [&] { return storage::is_locked(paths.lock()).value_or(false); };
  readable_run run;
  run.goes_on = goes_on();
  if (!run.goes_on) {
    QUERN_TRY(run.config, changed_config(folder, {}, false));
    if (run.config.stage == "sft") return run;
    QUERN_TRY(run.begun, actors::has_ledger(paths));
    if (!run.begun) return run;
    const auto whole = storage::database::check_untouched(paths.database());
    if (whole) return run;
    // Unless a writer has begun meanwhile, whose changes look like damage to a reader without lock.
    run.goes_on = goes_on();
    if (!run.goes_on) return tl::make_unexpected(whole.error());
  }
  QUERN_CHECK(check_growing_ledger(paths));
  return run;
}

int make_report(const fs::path& folder, const readable_run& found) {
  if (found.config.stage == "sft") {
    tell(stderr,
         "quern report: {} is of stage sft, which issues no samples and has no closing report, but "
         "a page\n",
         folder.string());
    return done;
  }
  base::set_log_level(found.config.observe.log_level);
  if (!found.begun) {
    tell(stdout, "{} was ended before anything was made: it has no closing report\n",
         folder.string());
    return done;
  }
  auto run = storage::run_directory::open(folder);
  if (!run) return report("report", run.error());
  // Again, now that nobody else can change it.
  const auto config = changed_config(folder, {}, false);
  if (!config) return report("report", config.error());
  const auto goal = actors::goal_of(*config, run->paths());
  if (!goal) return report("report", goal.error());
  // The last weights of a run that goes on are not the last ones.
  const bool measures = goal->reached() && actors::lacks_evaluation_set(*config, run->paths());
  const auto how = measures ? actors::missing_evaluation_set::measure
                            : actors::missing_evaluation_set::leave_out;
  const auto tasks = tasks_of(*config, folder, how);
  if (!tasks) return report("report", tasks.error());
  const auto check = measures ? actors::check_begun_with : actors::check_tasks_begun_with;
  const auto same = check(*config, run->paths().root, run->meta(), *tasks);
  if (!same && measures) return report("report", same.error());
  // What is there is told all the same.
  if (!same) base::log_warn("report", "{}", same.error().message);
  const auto made = actors::finish_run(*config, *run, *tasks, how);
  if (!made) return report("report", made.error());
  if (!*made) {
    tell(stderr, "paused: quern report {}\n", folder.string());
    return paused;
  }
  if (!goal->reached()) tell(stdout, "at {} {} of {}:\n", goal->unit, goal->done, goal->wanted);
  tell(stdout, "{}", **made);
  return done;
}

/// A page in `file`. What cannot be read is said there.
base::status put_page(const fs::path& folder, const fs::path& file) {
  QUERN_CHECK(write_run_page(folder, file));
  tell(stdout, "page: {}\n", file.string());
  return {};
}

/// The closing report, where the run does not go on, and the page in `file`; where that is empty,
/// in the folder of the run.
int make_both(const fs::path& folder, const fs::path& file) {
  if (const auto meta = storage::read_meta({folder}); !meta) return report("report", meta.error());
  const auto found = read_run_files(folder);
  if (!found) {
    const int code = report("report", found.error());
    if (file.empty()) {
      tell(stderr,
           "nothing in {0} was changed; quern report {0} --out FILE makes a page elsewhere of what "
           "can be read\n",
           folder.string());
      return code;
    }
    const auto written = put_page(folder, file);
    return written ? code : report("report", written.error());
  }
  int code = done;
  if (found->goes_on) {
    tell(stdout, "{} goes on: its closing report is made at its end\n", folder.string());
  } else if (!file.empty() && ::access(folder.c_str(), W_OK) != 0) {
    tell(stdout, "{} may only be read ({}): its closing report stays as it is\n", folder.string(),
         std::strerror(errno));
  } else {
    code = make_report(folder, *found);
    if (code == paused) return code;
  }
  const auto written = put_page(folder, file.empty() ? page_file(folder) : file);
  return written ? code : report("report", written.error());
}

int print_data(const fs::path& folder) {
  auto view = run_view::open(folder);
  if (!view) return report("report", view.error());
  view->refresh();
  return print_result("report", base::dump(view->data(false)) + "\n");
}

/// The text of a token file. Errors: one that is empty, which would leave the page open to anybody,
/// and one that others may read.
base::expected<std::string> read_token(const std::string& file) {
  QUERN_TRY(std::string text, base::read_file(file, 4096));
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0 && (info.st_mode & 077) != 0)
    return base::fail(base::errc::invalid_argument,
                      "--token-file is '{}', which has a secret token and may be read by others: "
                      "chmod 600 {}",
                      file, file);
  if (base::trim(text).empty())
    return base::fail(base::errc::invalid_argument,
                      "--token-file is '{}', which is empty: a token of at least {} letters and "
                      "digits is needed, such as that of openssl rand -hex 16",
                      file, least_token);
  return text;
}

struct serving {
  std::string address, token_file;
};

int serve(const fs::path& folder, const serving& asked) {
  const auto address = parse_serve_address(asked.address);
  if (!address) return report("report", address.error());
  std::string token;
  if (!asked.token_file.empty()) {
    auto read = read_token(asked.token_file);
    if (!read) return report("report", read.error());
    token = std::move(*read);
  }
  auto gate = gate_of(*address, token);
  if (!gate) return report("report", gate.error());
  // Before any thread, so that none of them takes the signal.
  base::pause_signals signals;
  auto view = run_view::open(folder);
  if (!view) return report("report", view.error());
  const base::steady_clock clock;
  live_page page(std::move(*view), clock);
  const auto server = page_server::start(page, *address, std::move(*gate));
  if (!server) return report("report", server.error());
  tell(stdout, "serving {} at {} ; Ctrl-C ends it\n", folder.string(), (*server)->url());
  std::fflush(stdout);
  constexpr int look_ms = 200;
  while (!signals.arrived(look_ms)) {
  }
  return done;
}

}  // namespace

int cmd_report(int argc, char** argv) {
  // The page is made after the report is printed, also where its reader has left.
  base::ignore_broken_pipes();
  CLI::App app(
      "quern report: make a run's closing report again (RUN/report.txt, RUN/kernels), and its page "
      "RUN/report.html, one file with curves, tables and kernels. While the run goes on, the page "
      "alone. docs/report.md tells more");
  std::string run, out;
  bool as_json = false;
  serving served;
  app.add_option("run", run, "folder of a run, or its name below runs/")->required();
  auto* const file = app.add_option("--out", out, "the page's file, instead of RUN/report.html");
  auto* const live =
      app.add_option("--serve", served.address,
                     "serve the page and follow the run until Ctrl-C, at HOST:PORT (127.0.0.1:8321 "
                     "where nothing is said); makes no files")
          ->expected(0, 1)
          ->excludes(file);
  app.add_flag("--json", as_json, "print what the page shows as one JSON object, and make no files")
      ->excludes(file)
      ->excludes(live);
  app.add_option("--token-file", served.token_file,
                 "with --serve: a file with the token that whoever asks must have")
      ->needs(live);
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto present = find_run(run);
  if (!present) return report("report", present.error());
  if (as_json) return print_data(*present);
  if (live->count() > 0) return serve(*present, served);
  // Before the closing report, which may take minutes.
  if (!out.empty())
    if (const auto usable = check_output_file("--out", out); !usable)
      return report("report", usable.error());
  return make_both(*present, out);
}

}  // namespace quern::tools
