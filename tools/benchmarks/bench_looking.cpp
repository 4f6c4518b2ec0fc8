// What looking at a run costs it: the numbers of a step in metrics.jsonl and as event files of
// TensorBoard, a scrape of Prometheus, the page at its end and the live page.
//
//   bench_looking RUN [--lines N] [--scrape-s S]
//
// RUN is a run that has ended; nothing of it is changed. Its own lines are written again, N of
// them, into a folder of this program. Shares are of the run's own time: of its median step, and
// of all its steps. Ends with 1 where they are above 2 % in all.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "actors/inspect/prometheus_text.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "env/measure/stats.hpp"
#include "storage/metrics_writer.hpp"
#include "storage/run_directory.hpp"
#include "tools/page/live_page.hpp"
#include "tools/page/page.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr double most_share = 0.02;
constexpr std::size_t longest_metrics = std::size_t{1} << 30;

struct looking_options {
  std::string run;
  int lines = 2000;
  double scrape_s = 15;
};

/// The lines of a run that tell of a step, and how long the steps took, s.
struct run_steps {
  std::vector<base::ordered_json> lines;
  std::vector<double> seconds;
  double total_s = 0;
};

base::expected<run_steps> steps_of(const fs::path& run) {
  QUERN_TRY(const auto text, base::read_file(run / "metrics.jsonl", longest_metrics));
  run_steps steps;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    auto line = base::ordered_json::parse(text.substr(at, end - at), nullptr, false);
    at = end + 1;
    if (!line.is_object() || !line.contains("step") || !line.contains("seconds")) continue;
    steps.seconds.push_back(line["seconds"].get<double>());
    steps.total_s += steps.seconds.back();
    steps.lines.push_back(std::move(line));
  }
  if (steps.lines.empty())
    return base::fail(base::errc::not_found,
                      "{} has no line of a step in metrics.jsonl: name a run that made steps",
                      run.string());
  return steps;
}

/// Seconds of `what`.
template <class Work>
double seconds_of(const Work& what) {
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  what();
  return static_cast<double>(clock.now_ns() - begin) * 1e-9;
}

/// Seconds a line; a power cut is waited for behind each, as a run may.
base::expected<double> write_lines(const run_steps& steps, int lines) {
  QUERN_TRY(const auto folder, base::temp_folder::make("quern-looking"));
  storage::run_paths paths(folder.path());
  QUERN_TRY(auto writer, storage::metrics_writer::open(paths));
  base::status done;
  const double took = seconds_of([&] {
    for (int i = 0; i < lines && done; ++i) {
      auto line = steps.lines[static_cast<std::size_t>(i) % steps.lines.size()];
      line["step"] = i + 1;
      done = writer.append(line);
    }
  });
  QUERN_CHECK(done);
  return took / lines;
}

/// Seconds of the first look at a live page, which reads the whole run. Later ones read what is
/// new.
base::expected<double> look_once(const looking_options& options) {
  QUERN_TRY(auto view, run_view::open(options.run));
  const base::steady_clock clock;
  live_page page(std::move(view), clock);
  return seconds_of([&] { (void)page.data(std::nullopt); });
}

base::expected<int> bench_looking(const looking_options& options) {
  QUERN_TRY(const auto steps, steps_of(options.run));
  const double step_s = env::median_of(steps.seconds);
  std::printf("%s: %zu steps in %.1f s, median %.2f s\n", options.run.c_str(), steps.lines.size(),
              steps.total_s, step_s);
  double share = 0;
  const auto tell = [&](const char* what, double seconds, const char* each, double of) {
    share += seconds / of;
    std::printf("%-46s %8.3f ms %-10s %7.4f %%\n", what, 1e3 * seconds, each, 100 * seconds / of);
  };
  QUERN_TRY(const double line_s, write_lines(steps, options.lines));
  tell("numbers of a step, and its TensorBoard events", line_s, "a step", step_s);
  std::string text;
  const double scrape_s = seconds_of([&] {
                            for (int i = 0; i < options.lines; ++i)
                              text = actors::prometheus_text("run", steps.lines.back());
                          }) /
                          options.lines;
  tell("a scrape of Prometheus", scrape_s, "a scrape", options.scrape_s);
  QUERN_TRY(const auto folder, base::temp_folder::make("quern-looking"));
  base::status written;
  const double page_s =
      seconds_of([&] { written = write_run_page(options.run, folder.path() / "report.html"); });
  QUERN_CHECK(written);
  tell("the page at the end", page_s, "a run", steps.total_s);
  QUERN_TRY(const double look_s, look_once(options));
  const double pause_s = static_cast<double>(live_page::usual_pause) * 1e-9;
  tell("the live page, as if each look were the first", look_s, "a look",
       std::max(pause_s, (live_page::rest + 1) * look_s));
  std::printf("all of it %.3f %% of the run's time, wanted %.0f %%: %s\n", 100 * share,
              100 * most_share, share <= most_share ? "met" : "missed");
  return share <= most_share ? 0 : 1;
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  CLI::App app{"Measures what looking at a run costs it.", "bench_looking"};
  quern::tools::looking_options options;
  app.add_option("run", options.run, "folder of a run that has ended")->required();
  app.add_option("--lines", options.lines, "lines to write")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--scrape-s", options.scrape_s, "seconds between two scrapes")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto ended = quern::tools::bench_looking(options);
  if (ended) return *ended;
  std::fprintf(stderr, "bench_looking: %s\n", ended.error().message.c_str());
  return 2;
}
