// quern compare: several runs side by side.
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/write_signals.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/input.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"
#include "tools/page/compare_runs.hpp"
#include "tools/page/page.hpp"

namespace quern::tools {
namespace {

base::expected<std::vector<run_view>> read_runs(const std::vector<std::string>& folders) {
  std::vector<run_view> views;
  for (const std::string& folder : folders) {
    QUERN_TRY(const auto present, find_run(folder));
    QUERN_TRY(auto view, run_view::open(present));
    view.refresh();
    views.push_back(std::move(view));
  }
  return views;
}

/// Says on stderr what is damaged of each run, and what to do. The exit code: `failed` before
/// `usage`, and `done` where all are whole.
int tell_damage(const std::vector<compared_run>& runs) {
  int worst = done;
  for (const compared_run& run : runs)
    for (const base::error& one : run.view->damage()) {
      const int code = report("compare", base::in_context(run.name, one).value());
      if (worst != failed) worst = code;
    }
  return worst;
}

base::status write_comparison(const std::vector<compared_run>& runs, const std::string& file) {
  QUERN_TRY(const std::string nonce, fresh_nonce());
  return base::write_file_atomic(
      file, render_page({"quern compare"}, base::dump(compare_json(runs)), nonce));
}

}  // namespace

int cmd_compare(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app(
      "quern compare: figures, curves and differing settings of runs side by side; they may still "
      "go on");
  std::vector<std::string> folders;
  std::string html;
  bool as_json = false;
  app.add_option("runs", folders, "folders of runs, or their names below runs/, two or more")
      ->required()
      ->expected(2, 8);
  app.add_option("--html", html, "also a page with curves, in this file");
  app.add_flag("--json", as_json, "one JSON object instead of tables");
  if (const auto code = parse(app, argc, argv)) return *code;
  if (!html.empty())
    if (const auto usable = check_output_file("--html", html); !usable)
      return report("compare", usable.error());
  const auto views = read_runs(folders);
  if (!views) return report("compare", views.error());
  std::vector<compared_run> runs;
  for (std::size_t i = 0; i < folders.size(); ++i)
    runs.push_back({folders[i], &(*views)[i]});
  // Before the tables: what they lack is known then, and standard output may be somewhere else.
  const int damaged = tell_damage(runs);
  const int printed =
      print_result("compare", as_json ? base::dump(compare_json(runs)) + "\n" : compare_text(runs));
  if (printed != done) return printed;
  if (html.empty()) return damaged;
  if (const auto written = write_comparison(runs, html); !written)
    return report("compare", written.error());
  tell(as_json ? stderr : stdout, "\npage: {}\n", html);
  return damaged;
}

}  // namespace quern::tools
