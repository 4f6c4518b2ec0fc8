// quern evaluator: an evaluator host. The one that a run starts for itself is the same program.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "actors/config/gpus.hpp"
#include "base/children.hpp"
#include "base/endpoint.hpp"
#include "base/file.hpp"
#include "base/input_end.hpp"
#include "base/log.hpp"
#include "base/measuring_cores.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/build/python.hpp"
#include "env/judge/device_offer.hpp"
#include "env/judge/evaluation_request.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/plugin/host_loop.hpp"
#include "env/plugin/key_file.hpp"
#include "env/sandbox/child.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_codec.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/early_end.hpp"
#include "tools/cli/lane_words.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {
namespace {

env::host_loop* running = nullptr;

/// From the end of input, which asks it to end, to a kill: what it evaluates is not waited for.
constexpr base::nanoseconds_t input_grace_ns = 3'000'000'000;

/// From the goodbye to an end with evaluations whose children do not end even when killed.
constexpr base::nanoseconds_t longest_end_ns = 1'500'000'000;

/// For children of children that were killed, whose contexts on a GPU take long to be taken down.
/// With longest_end_ns, or with the time that the warm Python of one GPU has for its own end, it is
/// below actors::defaults::exit_grace.
constexpr std::chrono::milliseconds longest_adoption{500};

void end_all_children() {
  if (base::end_children(longest_adoption)) return;
  base::log_warn("evaluator", "processes below did not end within {} of SIGKILL: left",
                 base::human_duration(std::chrono::nanoseconds(longest_adoption).count()));
}

/// Ends what is left of children when everybody who owned one is gone.
struct children_ended {
  ~children_ended() { end_all_children(); }
};
/// Before that: an owner whose child does not end in time kills it, and leaves that one's children.
struct orphans_adopted {
  ~orphans_adopted() { base::adopt_orphans(); }
};

/// The first SIGINT lets it finish what it has; a second one, and SIGTERM, end it now.
void on_signal(int number) {
  static volatile std::sig_atomic_t interrupted = 0;
  if (running == nullptr) return;
  if (number == SIGINT && interrupted == 0) {
    interrupted = 1;
    running->drain();
  } else {
    running->stop();
  }
}

/// Its children end with it, and its folders in the temporary folder. What a child that hangs keeps
/// of them goes with the next evaluator's start.
void leave() {
  end_all_children();
  base::temp_folder::remove_all_held();
  ::_exit(done);
}

void end_at_once() {
  base::log_warn("evaluator", "an evaluation did not end within {} of its children's end: left",
                 base::human_duration(longest_end_ns));
  leave();
}

void end_before_work() {
  base::log_info("evaluator", "asked to end while starting");
  // What the thread that starts says of its killed children is no news.
  const base::unique_fd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (nowhere) ::dup2(nowhere.get(), STDERR_FILENO);
  leave();
}

/// What evaluators left that were killed.
void clear_folders() {
  for (const std::string_view prefix : {env::work_folder_prefix, env::python_folder_prefix})
    base::temp_folder::remove_abandoned(prefix);
}

/// Keeps parsed tasks: a run sends the same ones again and again.
class task_cache {
 public:
  base::expected<std::shared_ptr<const env::task>> get(const env::host_job& job) {
    const std::lock_guard lock(guard_);
    auto& slot = tasks_[job.job.task_hash];
    if (!slot) {
      QUERN_TRY(env::task parsed, env::parse_task(*job.task));
      slot = std::make_shared<const env::task>(std::move(parsed));
    }
    return slot;
  }

 private:
  std::mutex guard_;
  std::unordered_map<base::hash128, std::shared_ptr<const env::task>> tasks_;
};

base::expected<env::evaluation_request> request_of(task_cache& tasks, const env::host_job& job) {
  env::evaluation_request request;
  QUERN_TRY(request.subject, tasks.get(job));
  request.source = job.job.source;
  request.protocol = job.job.protocol;
  request.seed = job.job.seed;
  request.recheck = job.job.recheck != 0;
  request.claim_e2 = job.job.claim_e2;
  request.best_known_e2 = job.job.best_known_e2;
  const std::int64_t usual_e2 = request.subject->lane->usual_recheck_above_e2;
  const std::int64_t above_e2 = job.job.recheck_above_e2;
  request.recheck_above = static_cast<double>(above_e2 > 0 ? above_e2 : usual_e2) / 100;
  if (!job.job.policy.empty()) {
    QUERN_TRY(request.policy, env::parse_suite_policy(job.job.policy));
  }
  return request;
}

constexpr int most_compilers = 32;

/// By the number under which the gateway knows the device: a GPU's own; the core's is the next one
/// after them.
using judge_list = std::map<std::int64_t, std::unique_ptr<env::candidate_judge>>;

/// A GPU that several lanes are offered on must have room for all of them. Before CUDA is asked for
/// anything here.
base::status check_room_of_device(const env::device_offer& offer) {
  if (offer.lanes_on_gpus().size() < 2) return {};
  const std::vector<std::int64_t>& sizes = actors::gpu_memory();
  for (const int gpu : offer.gpus)
    if (static_cast<std::size_t>(gpu) < sizes.size())
      QUERN_CHECK(env::check_room_on_gpu(
          offer, gpu, static_cast<std::uint64_t>(sizes[static_cast<std::size_t>(gpu)])));
  return {};
}

base::expected<judge_list> open_devices(env::evaluator_options options,
                                        const env::device_offer& offer) {
  QUERN_CHECK(check_room_of_device(offer));
  judge_list judges;
  std::int64_t next = 0;
  for (const int gpu : offer.gpus)
    next = std::max<std::int64_t>(next, gpu + 1);
  for (const auto& [lane, on_gpu] : offer.lanes) {
    options.on_gpu = on_gpu;
    for (const int gpu : on_gpu ? offer.gpus : std::vector<int>{0}) {
      options.gpu = gpu;
      QUERN_TRY(auto judge, lane->open_judge(options));
      // A second lane on a GPU is another device for the gateway: they take turns there.
      const bool taken = !on_gpu || judges.contains(gpu);
      judges.emplace(taken ? next++ : gpu, std::move(judge));
    }
  }
  return judges;
}

/// Each device with the lane that its judge has.
void offer(const judge_list& judges, env::host_profile& profile) {
  std::set<std::string> lanes;
  for (const auto& [id, judge] : judges)
    lanes.emplace(judge->lane().name);
  profile.lanes.assign(lanes.begin(), lanes.end());
  for (const auto& [id, judge] : judges) {
    env::host_device device{id, judge->device_class(), judge->candidates_at_a_time(), {}};
    if (lanes.size() > 1) device.lanes = {std::string(judge->lane().name)};
    profile.devices.push_back(std::move(device));
  }
}

env::candidate_judge& judge_of(const judge_list& judges, const env::host_job& job) {
  // The gateway names only devices that this host offered.
  return *judges.at(job.job.device);
}

/// The verdict's JSON, with the time that it waited for its turn on the device: of this evaluation,
/// also where the verdict is an older one.
std::string judged(env::candidate_judge& judge, const env::evaluation_request& request) {
  const double before_s = judge.waited_for_device_s();
  base::json told = env::to_json(judge.evaluate(request));
  const double waited_s = judge.waited_for_device_s() - before_s;
  if (waited_s > 0) told["device_wait_ns"] = static_cast<std::int64_t>(waited_s * 1e9);
  return base::dump(told);
}

/// Where the time of this host went.
void log_stages(const env::stage_seconds& spent) {
  base::log_info("evaluator",
                 "{} evaluations, {} from the cache; seconds: screen {:.1f}, compile {:.1f}, start "
                 "{:.1f}, reference {:.1f}, verify {:.1f}, probe {:.1f}, time {:.1f}, again {:.1f}",
                 spent.evaluations, spent.cache_hits, spent.screen, spent.compile, spent.start,
                 spent.reference, spent.verify, spent.probe, spent.time, spent.reverify);
}

/// Something in each place of ipc://PATH or tcp://HOST:PORT.
base::status check_endpoint(const std::string& endpoint) {
  constexpr std::string_view ipc = "ipc://";
  if (endpoint.starts_with(ipc) && endpoint.size() > ipc.size()) return {};
  const auto valid = base::check_tcp_endpoint(endpoint, base::endpoint_use::connect);
  if (valid) return {};
  if (endpoint.starts_with("tcp://"))
    return base::fail(base::errc::invalid_argument, "--connect is {}", valid.error().message);
  return base::fail(base::errc::invalid_argument,
                    "--connect is '{}', not ipc://PATH or tcp://HOST:PORT", endpoint);
}

std::string host_name() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

int cmd_evaluator(int argc, char** argv) {
  std::vector<std::string> known;
  for (const std::string_view name : env::lane_names())
    known.emplace_back(name);
  CLI::App app("quern evaluator: evaluate kernels for a run");
  std::string endpoint;
  std::string sandbox = "required";
  std::string screen = "on";
  std::string key_file;
  std::string gateway_key;
  std::string log_level = "info";
  env::evaluator_options options;
  std::vector<int> gpus;
  std::vector<std::string> lanes;
  double patience_s = 30;
  app.add_option("--connect", endpoint, "ipc://PATH or tcp://HOST:PORT of the run")->required();
  app.add_option("--keys", key_file, "this host's key pair, as quern keys makes it (tcp://)");
  app.add_option("--gateway-key", gateway_key,
                 "the run's public key, or the file that has it (tcp://)");
  app.add_option("--sandbox", sandbox,
                 "required: refuse to start where a needed layer is missing; best_effort: go on "
                 "without it")
      ->check(CLI::IsMember({"required", "best_effort"}))
      ->capture_default_str();
  app.add_option("--time-budget", options.time_budget_s,
                 "seconds of measuring one candidate; one that is noisy is measured up to four "
                 "times as long")
      ->check(number_within(0.05, 3600))
      ->capture_default_str();
  app.add_option("--precision", options.precision,
                 "both half-widths of ln(speed-up) at which measuring ends before the budget")
      ->check(number_within(0.001, 0.06))
      ->capture_default_str();
  app.add_option("--noise-limit", options.noise_limit,
                 "half-width of the interval above which a measurement is noisy")
      ->check(number_within(0.01, 0.5))
      ->capture_default_str();
  app.add_option("--evidence-share", options.evidence_share,
                 "share of evaluations of modules on a GPU that end with a profiled call")
      ->check(number_within(0, 1))
      ->capture_default_str();
  app.add_option("--static-screen", screen, "refuse sources by rule before they are compiled")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--core", options.core, "core that measures; -1: the first that is free")
      ->check(whole_within(-1, 4095))
      ->capture_default_str();
  app.add_option("--gpus", gpus,
                 "GPUs that measure, 0,1,…: " + lanes_on(env::device_kind::gpu) +
                     ", and lanes that can be judged on either")
      ->delimiter(',')
      ->check(whole_within(0, 63));
  app.add_option("--lanes", lanes,
                 lane_summaries() +
                     ", or several with commas between; usually the first on a GPU where --gpus "
                     "names some, else the first on a core")
      ->delimiter(',')
      ->check(CLI::IsMember(known));
  app.add_option("--patience", patience_s, "give up when no gateway answers for so long, s")
      ->check(number_within(0.1, 1e6))
      ->capture_default_str();
  app.add_option("--log-level", log_level, "lines below it are not written")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  std::int64_t start = 0;
  app.add_option("--start", start, "number that the run gave it, which it tells the run")
      ->check(whole_within(0, 2147483647));
  bool until_input_ends = false;
  app.add_flag("--until-input-ends", until_input_ends,
               "end with standard input: for a launch command on another machine");
  if (const auto code = parse(app, argc, argv)) return *code;
  auto while_starting = early_end::watch(end_before_work);
  if (!while_starting) return report("evaluator", while_starting.error());
  if (until_input_ends) base::end_with_input(input_grace_ns);
  if (const auto valid = check_endpoint(endpoint); !valid)
    return report("evaluator", valid.error());
  if (endpoint.starts_with("ipc://") && !(key_file.empty() && gateway_key.empty())) {
    fmt::print(stderr,
               "quern evaluator: --keys and --gateway-key are for tcp://, --connect is {}: leave "
               "them out\n",
               endpoint);
    return usage;
  }
  if (endpoint.starts_with("tcp://")) {
    if (key_file.empty() || gateway_key.empty()) {
      fmt::print(
          stderr,
          "quern evaluator: {} needs --keys FILE and --gateway-key FILE.pub: quern keys FILE "
          "makes both, the run's public key is in the .pub beside its env.keys\n",
          endpoint);
      return usage;
    }
    auto key = env::public_key_of(gateway_key);
    if (!key) return report("evaluator", base::in_context("--gateway-key", key.error()).value());
    gateway_key = std::move(*key);
  }
  const auto asked = env::device_offer_of(lanes, gpus);
  if (!asked) return report("evaluator", asked.error());
  base::set_log_level(log_level);
  options.static_screen = screen == "on";
  options.sandbox_required = sandbox == "required";
  // Faults that a soak plants: it must fail without what mends them.
  options.restart_reference = std::getenv("QUERN_FAULT_NO_REFERENCE_RESTART") == nullptr;
  clear_folders();
  const children_ended behind_the_judges;
  auto judges = open_devices(options, *asked);
  const orphans_adopted while_they_end;
  if (!judges) return report("evaluator", judges.error());
  env::host_options host;
  host.endpoint = endpoint;
  if (endpoint.starts_with("tcp://")) {
    auto keys = env::read_key_file(key_file);
    if (!keys) return report("evaluator", keys.error());
    host.keys = env::host_keys{std::move(*keys), gateway_key};
  }
  host.profile.build = base::build_id();
  host.profile.pid = ::getpid();
  host.profile.name = host_name();
  host.profile.start = start;
  for (const auto& [id, judge] : *judges)
    judge->warm_up();
  offer(*judges, host.profile);
  // Compilers are shared by the devices; a core stays for each one's evaluator.
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  if (!gpus.empty())
    host.preparers = std::clamp(cores - static_cast<int>(judges->size()), 1, most_compilers);
  host.ending = {base::kill_children, end_at_once, longest_end_ns};
  host.patience_ns = static_cast<base::nanoseconds_t>(patience_s * 1e9);
  task_cache tasks;
  auto loop = env::host_loop::make(
      host,
      [&](const env::host_job& job, const std::atomic<bool>&) -> env::host_result {
        const auto request = request_of(tasks, job);
        if (!request) return {true, request.error().message};
        return {false, judged(judge_of(*judges, job), *request)};
      },
      [&](const env::host_job& job) {
        const base::off_measuring_cores beside;
        if (const auto request = request_of(tasks, job))
          judge_of(*judges, job).compile_ahead(*request);
      },
      [&](std::int64_t device) -> std::optional<std::string> {
        auto& judge = *judges->at(device);
        if (judge.trouble()) judge.recover();
        const auto trouble = judge.trouble();
        return trouble ? std::optional(trouble->reason) : std::nullopt;
      });
  if (!loop) return report("evaluator", loop.error());
  running = loop->get();
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  while_starting->reset();
  const auto ended = (*loop)->run();
  running = nullptr;
  for (const auto& [id, judge] : *judges)
    log_stages(judge->stages());
  if (!ended) return report("evaluator", ended.error());
  return done;
}

}  // namespace quern::tools
