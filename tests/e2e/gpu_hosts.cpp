#include "e2e/gpu_hosts.hpp"

#include <algorithm>
#include <cstdio>

#include "actors/decide/role_report.hpp"
#include "base/program.hpp"
#include "env/screen/canonical.hpp"
#include "env/task/task_codec.hpp"
#include "support/test.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

namespace quern::test {
namespace {

using actors::lease_outcome;

/// The tree, or the working directory where this program was carried to another machine.
std::filesystem::path tree() {
  return std::filesystem::exists(source_dir() / "tests/honest") ? source_dir()
                                                                : std::filesystem::current_path();
}

constexpr actors::nanoseconds_t lease_ns = 120'000'000'000;

base::json manifest_at(const std::filesystem::path& file) {
  const auto text = base::read_file(file, 1U << 22U);
  REQUIRE(text.has_value());
  const auto value = base::parse_json(*text);
  REQUIRE(value.has_value());
  return *value;
}

actors::evaluation_scheduler::limits scheduler_limits() {
  actors::evaluation_scheduler::limits limits({actors::retry_limits::within(4), lease_ns});
  limits.pause.patience_ns = 0;
  return limits;
}

/// Of a task file, or of the reference of a module.
base::expected<env::task> task_of(const std::filesystem::path& file) {
  if (file.extension() != ".py") return env::load_task(file);
  QUERN_TRY(const auto text, base::read_file(file));
  QUERN_TRY(const auto subject, tools::module_task_of(file.stem().string(), text));
  return *subject;
}

bool earlier(const actors::device_key& a, const actors::device_key& b) {
  return std::pair(a.session, a.device) < std::pair(b.session, b.device);
}

}  // namespace

std::vector<gpu_candidate> honest_candidates(const std::string& suite) {
  const auto folder = tree() / "tests/honest/cuda";
  std::vector<gpu_candidate> found;
  const auto manifest = manifest_at(folder / "manifest.json");
  for (const auto& c : manifest["candidates"]) {
    if (c["suite"] != suite) continue;
    // The run's jobs carry no policy, and the default allows no libraries.
    if (c.contains("needs")) continue;
    found.push_back(
        {(folder / c["file"].get<std::string>()).string(),
         (tree() / "env/suites" / suite / (c["task"].get<std::string>() + ".task.yaml")).string(),
         c["form"].get<std::string>(),
         {c["expected"].get<std::string>()}});
  }
  return found;
}

std::vector<gpu_candidate> hostile_candidates(const std::vector<std::string>& files) {
  const auto folder = tree() / "tests/hostile/cuda";
  std::vector<gpu_candidate> found;
  const auto manifest = manifest_at(folder / "manifest.json");
  for (const auto& c : manifest["candidates"]) {
    const auto file = c["file"].get<std::string>();
    if (std::find(files.begin(), files.end(), file) == files.end()) continue;
    const auto& where = c["want"].contains("screen") ? c["want"] : c["race"];
    const auto right = where["screen"].is_string()
                           ? std::vector<std::string>{where["screen"].get<std::string>()}
                           : where["screen"].get<std::vector<std::string>>();
    found.push_back({(folder / file).string(), (folder / c["task"].get<std::string>()).string(),
                     c["form"].get<std::string>(), right});
  }
  REQUIRE(found.size() == files.size());
  return found;
}

std::vector<gpu_candidate> module_candidates(const std::vector<std::string>& names) {
  const auto folder = tree() / "tests/honest/pytorch";
  std::vector<gpu_candidate> found;
  for (const std::string& name : names) {
    const auto task = folder / "tasks" / (name.substr(0, name.find('.')) + ".py");
    found.push_back({(folder / (name + ".py")).string(), task.string(), "", {"ok"}, "pytorch"});
  }
  return found;
}

std::string short_verdict(const env::verdict& v) {
  std::string text(env::name_of(v.kind));
  if (!v.reason.empty()) text += ":" + v.reason;
  return text;
}

bool is_right(const env::verdict& v, const std::vector<std::string>& right) {
  const std::string whole = short_verdict(v), kind(env::name_of(v.kind));
  return std::any_of(right.begin(), right.end(),
                     [&](const std::string& r) { return r == whole || r == kind; });
}

gpu_run::gpu_run(std::string device_class, std::int64_t recheck_above_e2)
    : classes{{"cuda", std::move(device_class)}},
      sent(earlier),
      recheck_above_e2_(recheck_above_e2),
      scheduler_(1, scheduler_limits()) {}

base::status gpu_run::open() {
  actors::gateway_options options;
  options.endpoints = {"ipc://" + (folder_.path() / "hosts").string()};
  options.incarnation = 1;
  options.lease_ms = lease_ns / 1'000'000;
  options.heartbeat_ms = 200;
  const std::lock_guard lock(mutex_);
  QUERN_TRY(gateway_, actors::gateway::start(std::move(options), *this, clock_));
  return {};
}

base::expected<base::subprocess> gpu_run::start_host(const std::string& gpus,
                                                     const std::string& name,
                                                     const std::vector<std::string>& more) {
  base::subprocess_spec spec;
  spec.argv = {(base::program_folder() / "quern").string(),
               "evaluator",
               "--connect",
               "ipc://" + (folder_.path() / "hosts").string(),
               "--gpus",
               gpus,
               "--sandbox",
               "best_effort"};
  spec.argv.insert(spec.argv.end(), more.begin(), more.end());
  spec.log = folder_.path() / (name + ".log");
  hosts_.push_back(spec.log.string());
  return base::subprocess::start(spec);
}

std::string gpu_run::logs() const {
  std::string text;
  for (const std::string& file : hosts_) {
    constexpr std::size_t last = 4000;
    const auto all = base::read_file(file, 1U << 24U).value_or("(no log)");
    text += "---- " + file + "\n" + all.substr(all.size() > last ? all.size() - last : 0) + "\n";
  }
  return text;
}

const gpu_run::known_task& gpu_run::task_at(const std::string& path) {
  auto& known = tasks_[path];
  if (known.text.empty()) {
    const auto task = task_of(path);
    REQUIRE_MESSAGE(task.has_value(), path);
    known.text = env::to_yaml(*task);
    known.hash = *base::parse_hash(env::task_hash_of(env::task_id(*task)));
  }
  return known;
}

actors::sample_id gpu_run::submit(const gpu_candidate& candidate, int round) {
  const auto source = base::read_file(candidate.file, 1U << 20U);
  REQUIRE_MESSAGE(source.has_value(), candidate.file);
  const std::lock_guard lock(mutex_);
  (void)task_at(candidate.task);
  const actors::sample_id sample = ++next_;
  jobs[sample] = candidate;
  sources_[sample] = *source;
  if (round > 0)
    sources_[sample] = "constexpr int quern_round_" + std::to_string(round) + " = 0;\n" + *source;
  REQUIRE(scheduler_.submit({sample, candidate.lane, classes.at(candidate.lane), {}}).has_value());
  send_jobs();
  return sample;
}

void gpu_run::send_jobs() {
  while (const auto order = scheduler_.next(clock_.now_ns())) {
    const actors::sample_id sample = order->held.sample;
    env::job_message job;
    job.session = order->device.session;
    job.lease = order->held.id;
    job.device = order->device.device;
    job.lane = jobs.at(sample).lane;
    job.sample = static_cast<std::uint64_t>(sample);
    job.attempt = order->held.attempt;
    job.deadline_ms = lease_ns / 1'000'000;
    job.protocol = "paired/1";
    job.task_hash = tasks_.at(jobs.at(sample).task).hash;
    job.source_hash = env::source_hash(sources_.at(sample));
    job.seed = static_cast<std::uint64_t>(sample);
    job.recheck = order->recheck ? 1 : 0;
    job.claim_e2 = order->claim_e2;
    job.recheck_above_e2 = recheck_above_e2_;
    job.source = sources_.at(sample);
    holders_[job.lease] = order->device;
    ++sent[order->device];
    gateway_->send_job(std::move(job));
  }
  changed_.notify_all();
}

void gpu_run::settle(actors::session_id session, actors::lease_id lease,
                     const actors::lease_result& result, const std::string& text) {
  const bool failed =
      result.outcome == lease_outcome::retry || result.outcome == lease_outcome::exhausted;
  if (failed && result.cause == actors::retry_cause::infra_error) ++infra_errors;
  switch (result.outcome) {
    case lease_outcome::accepted:
    case lease_outcome::exhausted: {
      ++accepted[result.sample];
      exhausted += result.outcome == lease_outcome::exhausted ? 1 : 0;
      auto& answer = answers[result.sample];
      answer.attempts = result.attempt;
      answer.device = holders_[lease];
      answer.device_wait_s = static_cast<double>(actors::device_wait_of(text)) * 1e-9;
      if (auto v = env::parse_verdict(text)) {
        answer.judged = std::move(*v);
      } else {
        answer.judged.detail = text;
      }
      std::printf("sample %lld, attempt %d, device %lld: %-22s %s\n",
                  static_cast<long long>(result.sample), result.attempt,
                  static_cast<long long>(answer.device.device),
                  short_verdict(answer.judged).c_str(),
                  std::filesystem::path(jobs.at(result.sample).file).filename().c_str());
      break;
    }
    case lease_outcome::retry:
      ++retries;
      std::printf("sample %lld, attempt %d, is tried again (%s): %.200s\n",
                  static_cast<long long>(result.sample), result.attempt,
                  std::string(to_string(result.cause)).c_str(), text.c_str());
      break;
    case lease_outcome::returned:
      ++returned_jobs;
      break;
    default:
      break;
  }
  if (result.outcome != lease_outcome::pending) {
    scheduler_.committed(lease);
    const bool late =
        result.outcome == lease_outcome::late || result.outcome == lease_outcome::unknown;
    gateway_->acknowledge(session, lease, !late);
  }
  send_jobs();
}

void gpu_run::host_joined(actors::session_id session, const env::hello_message& from) {
  const std::lock_guard lock(mutex_);
  actors::host_offer offer{from.lanes, {}};
  for (const auto& d : from.devices) {
    offer.devices.push_back({d.id, d.device_class, d.slots, d.lanes});
    devices_[session].push_back(d.id);
    std::printf("host %s (process %lld) joined with device %lld (%s), %lld slots\n",
                from.name.c_str(), static_cast<long long>(from.pid), static_cast<long long>(d.id),
                d.device_class.c_str(), static_cast<long long>(d.slots));
  }
  hello = from;
  (void)scheduler_.host_joined(session, offer);
  joined.push_back(session);
  changed_.notify_all();
}

void gpu_run::credit(actors::session_id session, std::int64_t device, std::int64_t granted) {
  const std::lock_guard lock(mutex_);
  (void)scheduler_.credit({session, device}, granted);
  send_jobs();
}

void gpu_run::verdict(actors::session_id session, actors::lease_id lease, const std::string& text) {
  const std::lock_guard lock(mutex_);
  const auto v = env::parse_verdict(text);
  const auto now = clock_.now_ns();
  if (!v) return settle(session, lease, scheduler_.failed(session, lease, now), v.error().message);
  if (!v->claim_e2)
    return settle(session, lease, scheduler_.verdict(session, lease, v->kind, now), text);
  ++claims;
  settle(session, lease, scheduler_.claimed(session, lease, *v->claim_e2, now), text);
}

void gpu_run::failed(actors::session_id session, actors::lease_id lease,
                     const std::string& reason) {
  const std::lock_guard lock(mutex_);
  settle(session, lease, scheduler_.failed(session, lease, clock_.now_ns()), reason);
}

void gpu_run::returned(actors::session_id session, actors::lease_id lease,
                       const std::string& reason) {
  const std::lock_guard lock(mutex_);
  settle(session, lease, scheduler_.returned(session, lease, clock_.now_ns()), reason);
}

void gpu_run::quarantined(actors::session_id session,
                          const std::vector<env::quarantined_device>& devices) {
  const std::lock_guard lock(mutex_);
  quarantines.push_back(devices);
  for (const std::int64_t device : devices_[session]) {
    const auto out = std::find_if(devices.begin(), devices.end(),
                                  [&](const auto& one) { return one.device == device; });
    if (out != devices.end())
      std::printf("device %lld in quarantine: %s\n", static_cast<long long>(device),
                  out->reason.c_str());
    scheduler_.device_out({session, device}, out != devices.end());
  }
  send_jobs();
}

void gpu_run::host_draining(actors::session_id session) {
  const std::lock_guard lock(mutex_);
  scheduler_.host_draining(session);
  draining.push_back(session);
  changed_.notify_all();
}

void gpu_run::host_lost(actors::session_id session, const std::string& why) {
  const std::lock_guard lock(mutex_);
  std::printf("host lost: %s\n", why.c_str());
  retries += static_cast<int>(scheduler_.host_lost(session, clock_.now_ns()).size());
  lost.push_back(session);
  send_jobs();
}

void gpu_run::host_left(actors::session_id session, const std::string& why) {
  const std::lock_guard lock(mutex_);
  std::printf("host left: %s\n", why.c_str());
  (void)scheduler_.host_left(session, clock_.now_ns());
  lost.push_back(session);
  send_jobs();
}

std::optional<std::string> gpu_run::task_text(const base::hash128& task) {
  const std::lock_guard lock(mutex_);
  for (const auto& [path, known] : tasks_)
    if (known.hash == task) return known.text;
  return std::nullopt;
}

}  // namespace quern::test
