// quern tasks: draw tasks from the grammar, check task files, begin a new one, make a corpus.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "actors/allowed_by.hpp"
#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/measured_as.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "env/grammar/corpus.hpp"
#include "env/grammar/draw.hpp"
#include "env/grammar/task_maker.hpp"
#include "env/judge/compile_pool.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/task/find_tasks.hpp"
#include "env/task/task_codec.hpp"
#include "tools/cli/check_tasks.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/source_options.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// Names of the lanes, or of those that have a grammar.
std::vector<std::string> known_lanes(bool with_grammar) {
  std::vector<std::string> names;
  for (const env::lane* one : env::all_lanes())
    if (!with_grammar || one->grammar != nullptr) names.emplace_back(one->name);
  return names;
}

/// Files of drawn tasks, by what is to be in them. Refuses one that is there with other content: it
/// may be of another lane, or changed by hand.
base::status write_tasks(const std::map<fs::path, std::string>& files, const fs::path& folder) {
  std::error_code ignored;
  for (const auto& [file, text] : files) {
    if (!fs::exists(file, ignored)) continue;
    QUERN_TRY(const std::string there, base::read_file(file));
    if (there != text)
      return base::fail(base::errc::already_exists,
                        "{} is there with other content, of another lane or build or changed by "
                        "hand: name another --out, or remove it; nothing was written",
                        file.string());
  }
  for (const auto& [file, text] : files) {
    QUERN_CHECK(base::write_file_atomic(file, text));
    fmt::print("{}\n", file.string());
  }
  std::int64_t others = 0;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    others +=
        entry.path().string().ends_with(".task.yaml") && !files.contains(entry.path()) ? 1 : 0;
  if (others > 0)
    fmt::print(stderr, "{} has {} other task files: all of them are one suite\n", folder.string(),
               others);
  // A folder of tasks is a suite; one that is there keeps its split.
  const fs::path suite = folder / "suite.yaml";
  if (fs::exists(suite, ignored)) return {};
  return base::write_file_atomic(suite, "quern_suite: 1\nsplit: {by: task, held_out: []}\n");
}

int generate(const env::lane& where, std::uint64_t seed, std::uint64_t first, std::int64_t count,
             const std::string& folder) {
  if (!folder.empty()) {
    if (const auto made = base::make_folders(folder); !made)
      return report("tasks", {base::errc::invalid_argument,
                              "--out: " + made.error().message + "; name another folder"});
  }
  std::map<fs::path, std::string> files;
  for (std::uint64_t index = first; index < first + static_cast<std::uint64_t>(count); ++index) {
    const auto drawn = env::draw_tried(seed, index, where.grammar()->limits());
    env::task_options options;
    options.lane = &where;
    const auto task = env::make_task(drawn, options);
    if (!task) return report("tasks", task.error());
    if (folder.empty())
      fmt::print("{:>6}  {:<34} {}\n", index, task->name, env::to_text(drawn.subject()));
    else
      files.emplace(fs::path(folder) / (task->name + ".task.yaml"), env::to_yaml(*task));
  }
  if (folder.empty()) return done;
  const auto written = write_tasks(files, folder);
  return written ? done : report("tasks", written.error());
}

int begin_task(const env::lane& lane, const std::string& name, const std::string& folder) {
  const auto text = lane.new_task(name);
  if (!text) return report("tasks", text.error());
  const fs::path file = fs::path(folder) / (name + ".task.yaml");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    return report("tasks", {base::errc::not_found,
                            "--folder " + folder + " is no folder: make it or name another one"});
  if (fs::exists(file, ignored))
    return report("tasks", {base::errc::already_exists,
                            file.string() + " is there already: choose another name or --folder"});
  if (const auto written = base::write_file_atomic(file, *text); !written) {
    return report("tasks", written.error());
  }
  fmt::print("{}: change it, then quern tasks check {}\n", file.string(), file.string());
  return done;
}

/// The judge of a lane as the judge of a corpus. On a GPU many candidates are on their way: a
/// device is done with one before a compiler is.
class evaluating_judge final : public env::corpus_judge {
 public:
  explicit evaluating_judge(env::candidate_judge& with) : judge_(with) {
    if (with.lane().corpus_tasks_ahead == 0) return;
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    ahead_.emplace(with, std::clamp(cores - 2, 2, most_compilers));
  }
  base::expected<env::verdict> judge(const std::shared_ptr<const env::task>& subject,
                                     const std::string& source,
                                     const std::string& protocol) override {
    env::evaluation_request request;
    request.subject = subject;
    request.source = source;
    request.verify_only = protocol.empty();
    if (!protocol.empty()) request.protocol = protocol;
    env::verdict judged = judge_.evaluate(request);
    // Else every sample that is left would be dropped, for no fault of its own.
    if (!env::judges_candidate(judged.kind))
      if (const auto trouble = judge_.trouble())
        return base::fail(base::errc::unavailable,
                          "the device judges no more ({}): put it right, then quern resume",
                          trouble->reason);
    return judged;
  }
  [[nodiscard]] int look_ahead() const override { return judge_.lane().corpus_tasks_ahead; }
  void announce(const std::shared_ptr<const env::task>& subject,
                const std::string& source) override {
    env::evaluation_request request;
    request.subject = subject;
    request.source = source;
    ahead_->add(std::move(request));
  }

 private:
  static constexpr int most_compilers = 14;
  env::candidate_judge& judge_;
  std::optional<env::compile_pool> ahead_;
};

base::expected<env::corpus_plan> plan_of(const actors::run_config& config, int shard, int shards) {
  env::corpus_plan plan;
  plan.seed = static_cast<std::uint64_t>(config.tasks.seed);
  plan.tasks = config.tasks.corpus_tasks;
  plan.samples_per_task = static_cast<int>(config.tasks.corpus_variants);
  plan.wrong_share = config.tasks.corpus_wrong_share;
  plan.exemplar_task_share = config.tasks.corpus_exemplars_share;
  plan.exemplars_shown = config.replay.exemplars_shown;
  plan.comparing_share = config.tasks.corpus_comparing_share;
  plan.wrong_shown_share = config.tasks.corpus_wrong_shown_share;
  plan.exemplar_protocol = actors::measured_as(config);
  QUERN_TRY(plan.held_out, actors::held_out_of(config));
  plan.task.lane = &actors::lane_of(config);
  plan.limits = plan.task.lane->grammar()->limits();
  plan.shard = shard;
  plan.shards = shards;
  return plan;
}

volatile std::sig_atomic_t stop_corpus = 0;

/// Which shards one process makes, one after the other, and of how many.
struct shard_choice {
  std::vector<int> mine;
  int of = 1;
};

base::expected<int> make_corpus(const std::string& config_file, const std::string& folder,
                                const shard_choice& shards) {
  QUERN_TRY(const auto config, actors::load_run_config(config_file, {}));
  base::set_log_level(config.observe.log_level);
  if (actors::lane_of(config).grammar == nullptr)
    return base::fail(base::errc::invalid_argument,
                      "env.lane is {}, which has no grammar of tasks: no corpus can be made of it",
                      config.env.lane);
  env::evaluator_options options;
  options.sandbox_required = config.env.sandbox == "required";
  options.time_budget_s = config.env.time_budget_s;
  options.precision = config.env.precision;
  options.noise_limit = config.env.noise_limit;
  QUERN_TRY(const std::vector<int> gpus, actors::gpus_of(config));
  options.gpu = gpus[static_cast<std::size_t>(shards.mine.front()) % gpus.size()];
  options.static_screen = config.env.static_screen;
  const env::lane& lane = actors::lane_of(config);
  const env::suite_policy allowed = actors::allowed_by(config, {});
  options.policy = allowed;
  QUERN_TRY(const auto evaluator, lane.open_judge(options));
  QUERN_TRY(const auto prompts, base::share_folder("env/prompts"));
  QUERN_TRY(const auto form,
            env::prompt_template::load(prompts / (config.policy.template_name + ".prompt")));
  const env::prompt_facts facts{evaluator->device_class(),
                                env::default_restrictions(lane, allowed)};
  evaluating_judge judge(*evaluator);
  std::signal(SIGTERM, [](int) { stop_corpus = 1; });
  const base::steady_clock clock;
  const base::nanoseconds_t started = clock.now_ns();
  const auto is_over = [&] {
    const double seconds = static_cast<double>(clock.now_ns() - started) * 1e-9;
    return config.tasks.corpus_part_s > 0 && seconds > config.tasks.corpus_part_s;
  };
  for (const int shard : shards.mine) {
    QUERN_TRY(const env::corpus_plan plan, plan_of(config, shard, shards.of));
    const fs::path file = fs::path(folder) / env::shard_file(shard);
    QUERN_TRY(auto maker, env::corpus_maker::open(plan, form, facts, file, judge));
    const auto tell = [&] {
      const env::corpus_counts& counts = maker.counts();
      base::log_info("corpus",
                     "{} tasks, {} records, {} wrong, {} not as intended, {} dropped; {} show "
                     "kernels: {} of them compare, {} of those with the best shown, {} with a "
                     "wrong one",
                     counts.tasks, counts.records, counts.wrong, counts.unexpected, counts.dropped,
                     counts.showing, counts.comparing, counts.best_shown, counts.wrong_shown);
    };
    std::int64_t told = maker.counts().tasks;
    for (bool more = true; more;) {
      if (stop_corpus != 0 || is_over()) {
        tell();
        return int{paused};
      }
      QUERN_TRY(more, maker.step());
      if (more && maker.counts().tasks - told < 50) continue;
      told = maker.counts().tasks;
      tell();
    }
  }
  return int{done};
}

/// Canonical hashes of all that a corpus shows a policy: what it wrote and its exemplars.
int list_sources(const std::string& folder) {
  std::set<std::string> hashes;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
    if (entry.path().extension() != ".jsonl") continue;
    const auto records = env::read_corpus(entry.path());
    if (!records) return report("tasks", records.error());
    for (const env::corpus_record& record : *records) {
      hashes.insert(record.source_hash);
      hashes.insert(record.exemplars.begin(), record.exemplars.end());
    }
  }
  if (hashes.empty()) {
    fmt::print(stderr,
               "quern tasks: no corpus in {}{}{}: name the folder of its .jsonl files, such as "
               "corpus/ in a run of stage sft\n",
               folder, code ? ": " : "", code ? code.message() : "");
    return usage;
  }
  for (const std::string& hash : hashes)
    fmt::print("{}\n", hash);
  return done;
}

}  // namespace

int cmd_tasks(int argc, char** argv) {
  CLI::App app("quern tasks: draw, check and begin tasks");
  app.require_subcommand(1);
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::int64_t count = 10;
  std::string folder;
  std::string here = ".";
  std::string name;
  std::string config;
  std::string sandbox = "required";
  check_options how;
  std::string lane(env::all_lanes().front()->name);
  std::string generated = known_lanes(true).empty() ? lane : known_lanes(true).front();
  std::vector<std::string> paths;
  shard_choice shards;
  env::source_options from;
  constexpr std::int64_t largest = 9'000'000'000'000'000;  // as the seeds of a configuration
  auto* generating = app.add_subcommand("generate", "tasks of the grammar, by address");
  generating->add_option("--seed", seed, "address: which supply")->check(whole_within(0, largest));
  generating->add_option("--first", first, "address: index of the first")
      ->check(whole_within(0, largest));
  generating->add_option("--count", count, "how many")->check(whole_within(1, 1000000));
  generating->add_option("--lane", generated, "what kernels are written in")
      ->capture_default_str()
      ->check(CLI::IsMember(known_lanes(true)));
  generating->add_option("--out", folder, "folder for a suite of task files; none: a line each");
  auto* checking = app.add_subcommand("check", "refuse tasks that would teach the wrong thing");
  checking->add_option("paths", paths, "task files or suites" + env::foreign_forms())->required();
  checking->add_option("--sandbox", sandbox, "required | best_effort")
      ->check(CLI::IsMember({"required", "best_effort"}));
  checking
      ->add_option("--gpu", how.gpu,
                   "number of the GPU, for tasks that run on one; modules are checked on it "
                   "instead of on a core")
      ->check(whole_within(0, 63));
  checking
      ->add_option("--task-s", how.task_seconds,
                   "wall seconds of a task whose reference is a module; then it is skipped")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 86400.0));
  checking
      ->add_option("--task-gib", how.task_gib,
                   "memory of a process of such a task, in GiB, at most")
      ->capture_default_str()
      ->check(whole_within(1, 8));
  checking->add_flag("--best-effort", how.best_effort,
                     "end with 0 although tasks are refused or skipped (the sandbox: --sandbox)");
  add_source_options(*checking, from);
  auto* beginning = app.add_subcommand("new", "a commented task file to start from");
  beginning->add_option("name", name, "name of the task")->required();
  beginning->add_option("--lane", lane, "what its kernels are written in")
      ->capture_default_str()
      ->check(CLI::IsMember(known_lanes(false)));
  beginning->add_option("--folder", here, "where; default: here");
  auto* corpus =
      app.add_subcommand("corpus", "shards of a fine-tuning corpus; quern train starts it");
  corpus->add_option("--config", config, "configuration of the run")->required();
  corpus->add_option("--folder", folder, "where the corpus is kept")->required();
  corpus->add_option("--shard", shards.mine, "which of --shards; several are made in order")
      ->required()
      ->check(whole_within(0, 1023));
  corpus->add_option("--shards", shards.of, "of how many the corpus is; fixed when it is begun")
      ->required()
      ->check(whole_within(1, 1024));
  auto* sources = app.add_subcommand("sources", "hashes of the sources that a corpus contains");
  sources->add_option("folder", folder, "folder of the corpus")->required();
  if (const auto code = parse(app, argc, argv)) return *code;
  if (sources->parsed()) return list_sources(folder);
  if (generating->parsed()) return generate(*env::find_lane(generated), seed, first, count, folder);
  how.sandbox_required = sandbox == "required";
  if (checking->parsed()) return check_tasks(paths, how, from);
  if (beginning->parsed()) return begin_task(*env::find_lane(lane), name, here);
  const auto made = make_corpus(config, folder, shards);
  return made ? *made : report("tasks", made.error());
}

}  // namespace quern::tools
