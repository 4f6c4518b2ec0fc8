// `quern evaluator --gpus` behind a real gateway: verdicts, death of a host, goodbye, quarantine,
// several lanes, several devices.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <set>
#include <thread>

#include "e2e/gpu_hosts.hpp"
#include "env/device/gpu_class.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/gpu/device_context.hpp"
#include "env/lanes/cuda/cuda_evaluator.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "support/gpu.hpp"

using namespace quern;
using namespace quern::test;
using base::operator""_s;

namespace {

constexpr double long_enough_s = 240;

/// How many GPUs there are, and of which class; 0: the test is skipped, and has said so.
int usable_gpus(std::string& device_class) {
  const auto host = env::probe_gpus();
  if (!go_on_with_gpu(host.has_value(), host ? "" : host.error().message)) return 0;
  device_class = env::gpu_device_class(host->gpus.front().name);
  return static_cast<int>(host->gpus.size());
}

std::vector<gpu_candidate> a_few(std::size_t honest, const std::string& form = "") {
  auto all = honest_candidates("cuda_quick");
  if (!form.empty()) std::erase_if(all, [&](const gpu_candidate& c) { return c.form != form; });
  // Spread over the tasks, which stand together in the manifest.
  std::vector<gpu_candidate> chosen;
  for (std::size_t i = 0; i < honest; ++i)
    chosen.push_back(all[i * all.size() / honest]);
  return chosen;
}

/// Modules that need no compiler, Triton, and nvcc.
std::vector<gpu_candidate> modules_few() {
  return module_candidates({"relu.clamp", "softmax.by_hand", "layer_norm.moments", "mlp.functional",
                            "softmax.triton_row", "relu.cuda_float4"});
}

/// Whether lane pytorch can judge here.
bool has_module_python() {
  const auto python = env::find_module_python();
  return go_on_with_gpu(python.has_value(), python ? "" : python.error().message);
}

std::vector<gpu_candidate> hostile_few() {
  return hostile_candidates({"device/does_nothing.cu", "device/cache_by_pointer.cu",
                             "device/write_one_past_output.cu", "device/illegal_address.cu",
                             "device/constant_output.cu", "host/background_thread.cu"});
}

void submit(gpu_run& run, const std::vector<gpu_candidate>& candidates, int round = 0) {
  for (const auto& candidate : candidates)
    run.submit(candidate, round);
}

/// Fails with the hosts' logs where it takes too long.
template <class Condition>
void wait_until(gpu_run& run, Condition condition) {
  const bool done = run.wait(long_enough_s, condition);
  if (!done) std::printf("%s\n", run.logs().c_str());
  REQUIRE(done);
}

void check_all_right(gpu_run& run) {
  for (const auto& [sample, candidate] : run.jobs) {
    CAPTURE(candidate.file);
    CHECK(run.accepted[sample] == 1);
    const auto& v = run.answers[sample].judged;
    CAPTURE(v.detail);
    CHECK_MESSAGE(is_right(v, candidate.right), short_verdict(v), " for ", candidate.file);
  }
}

bool all_in(const gpu_run& run) {
  return run.answers.size() == run.jobs.size();
}

}  // namespace

TEST_CASE("a host judges what a run sends, and leaves when it is asked to") {
  std::string device_class;
  if (usable_gpus(device_class) == 0) return;
  gpu_run run(device_class, 0);
  REQUIRE(run.open().has_value());
  auto host = run.start_host("0", "host");
  REQUIRE(host.has_value());
  submit(run, a_few(12));
  submit(run, hostile_few());
  wait_until(run, [&] { return all_in(run); });
  check_all_right(run);
  std::size_t told = 0;
  for (const auto& [sample, answer] : run.answers) {
    const auto& v = answer.judged;
    if (!v.device) continue;
    ++told;
    CHECK(v.device->looks.size() >= 2);
    if (told > 3) continue;
    std::printf("conditions: %s\n", base::dump(env::to_json(v)["device"]).c_str());
  }
  std::printf("verdicts with the device's conditions: %zu of %zu\n", told, run.answers.size());
  CHECK(told > 0);
  CHECK(run.quarantines.empty());

  // Drained in the middle of work: what it has is finished, what it has not stays here.
  submit(run, a_few(30, "device_only"));
  const auto before = run.answers.size();
  REQUIRE(run.wait(60, [&] { return run.answers.size() >= before + 2; }));
  run.drain();
  const auto ended = host->wait(120_s);
  if (!ended) std::printf("%s\n", run.logs().c_str());
  REQUIRE(ended.has_value());
  CHECK(describe(*ended) == "exit code 0");
  REQUIRE(run.wait(10, [&] { return !run.lost.empty(); }));
  CHECK_FALSE(run.draining.empty());
  CHECK(run.exhausted == 0);
}

TEST_CASE("a host that is killed loses nothing: another one does its work") {
  std::string device_class;
  if (usable_gpus(device_class) == 0) return;
  gpu_run run(device_class, 0);
  REQUIRE(run.open().has_value());
  auto first = run.start_host("0", "first");
  REQUIRE(first.has_value());
  submit(run, a_few(16));
  submit(run, hostile_few());
  wait_until(run, [&] { return run.answers.size() >= 4; });
  first->send_signal(SIGKILL);
  REQUIRE(first->wait(10_s).has_value());
  auto second = run.start_host("0", "second");
  REQUIRE(second.has_value());
  wait_until(run, [&] { return all_in(run); });
  check_all_right(run);
  CHECK(run.lost.size() == 1);
  CHECK(run.retries > 0);
  std::printf("%zu jobs, %d leases came back from the dead host\n", run.jobs.size(), run.retries);
  second->send_signal(SIGINT);
  const auto ended = second->wait(60_s);
  REQUIRE(ended.has_value());
  CHECK(describe(*ended) == "exit code 0");
}

TEST_CASE("memory that does not come back puts the device into quarantine, and out again") {
  std::string device_class;
  if (usable_gpus(device_class) == 0) return;
  gpu_run run(device_class, 0);
  REQUIRE(run.open().has_value());
  auto host = run.start_host("0", "host");
  REQUIRE(host.has_value());
  auto context = env::device_context::open(0);
  REQUIRE(context.has_value());
  // Processes of their own, one after another: memory is looked at around what each is asked.
  const auto candidates = a_few(10, "host_entry");
  auto submit_all = [&, round = 0]() mutable { submit(run, candidates, round++); };
  submit_all();
  REQUIRE(run.wait(long_enough_s, [&] { return run.answers.size() >= 2; }));
  const auto out = [&] { return !run.quarantines.empty(); };
  bool quarantined = false;
  for (int attempt = 0; attempt < 10 && !quarantined; ++attempt) {
    // Somebody takes 30 GiB while a candidate's process is asked, by chance: for the host, they
    // are missing. Between two attempts nothing is taken for longer than a question lasts.
    submit_all();
    (void)run.wait(1.5 + 0.17 * attempt, out);
    auto piece = (*context)->allocate(30ULL << 30);
    REQUIRE_MESSAGE(piece.has_value(), (piece ? "" : piece.error().message));
    quarantined = run.wait(6, out);
    std::printf("attempt %d to be seen with memory: %s\n", attempt, quarantined ? "yes" : "no");
    if (!quarantined) continue;
    CHECK(contains(run.quarantines.front().front().reason, "memory"));
    // Nothing is done meanwhile, and nothing is lost.
    const auto before = run.answers.size();
    CHECK_FALSE(run.wait(3, [&] { return run.answers.size() > before + 1; }));
  }
  if (!quarantined) std::printf("%s\n", run.logs().c_str());
  REQUIRE(quarantined);
  const bool back = run.wait(90, [&] { return run.quarantines.back().empty(); });
  if (!back) std::printf("%s\n", run.logs().c_str());
  REQUIRE(back);
  wait_until(run, [&] { return all_in(run); });
  check_all_right(run);
  CHECK(run.exhausted == 0);
  std::printf("%d jobs were returned and done later\n", run.returned_jobs);
}

TEST_CASE("a host offers lanes cuda and pytorch on one GPU, and judges jobs of both at once") {
  std::string device_class;
  if (usable_gpus(device_class) == 0 || !has_module_python()) return;
  gpu_run run(device_class, 0);
  run.classes["pytorch"] = device_class + "-torch";
  REQUIRE(run.open().has_value());
  const auto kernels = a_few(6), modules = modules_few();
  for (std::size_t i = 0; i < kernels.size(); ++i)
    submit(run, {kernels[i], modules[i]});
  auto host = run.start_host("0", "host", {"--lanes", "cuda,pytorch"});
  REQUIRE(host.has_value());
  wait_until(run, [&] { return run.sent.size() == 2; });
  // Both devices have jobs before either has judged one.
  CHECK(run.wait(0, [&] { return run.answers.empty(); }));
  const std::string offered = env::offer_text(run.hello.lanes, run.hello.devices);
  CHECK(contains(offered, "lanes cuda, pytorch; devices 0 (" + device_class + ", lanes cuda, "));
  CHECK(contains(offered, ", 1 (" + device_class + "-torch, lanes pytorch, "));
  CHECK(contains(run.logs(), offered));

  wait_until(run, [&] { return all_in(run); });
  std::map<std::string, int> right;
  std::map<std::string, std::set<std::string>> gpus;
  double waited_s = 0;
  for (const auto& [sample, candidate] : run.jobs) {
    const gpu_answer& answer = run.answers[sample];
    const auto& v = answer.judged;
    CAPTURE(candidate.file);
    CAPTURE(v.detail);
    CHECK(run.accepted[sample] == 1);
    // Uneven times say nothing against the host.
    const bool fine = v.kind == env::verdict_kind::ok || v.kind == env::verdict_kind::noisy;
    CHECK_MESSAGE(fine, short_verdict(v));
    right[candidate.lane] += v.kind == env::verdict_kind::ok ? 1 : 0;
    CHECK(v.device_class == run.classes.at(candidate.lane));
    CHECK(answer.device.device == (candidate.lane == "cuda" ? 0 : 1));
    if (v.device) gpus[candidate.lane].insert(v.device->bus_id);
    waited_s += answer.device_wait_s;
  }
  std::printf("ok: %d of lane cuda, %d of lane pytorch; waited %.2f s for the GPU\n", right["cuda"],
              right["pytorch"], waited_s);
  CHECK(right["cuda"] >= 1);
  CHECK(right["pytorch"] >= 1);
  CHECK(gpus["cuda"].size() == 1);
  CHECK(gpus["cuda"] == gpus["pytorch"]);
  CHECK(run.infra_errors == 0);
  CHECK(run.quarantines.empty());
  run.drain();
  const auto ended = host->wait(120_s);
  if (!ended) std::printf("%s\n", run.logs().c_str());
  REQUIRE(ended.has_value());
  CHECK(describe(*ended) == "exit code 0");
}

TEST_CASE("a host that offers lane cuda alone gets no work of lane pytorch") {
  std::string device_class;
  if (usable_gpus(device_class) == 0) return;
  gpu_run run(device_class, 0);
  // The class of the host, so that only the lane is another one.
  run.classes["pytorch"] = device_class;
  REQUIRE(run.open().has_value());
  auto host = run.start_host("0", "host", {"--lanes", "cuda"});
  REQUIRE(host.has_value());
  auto modules = modules_few();
  modules.resize(2);
  submit(run, modules);
  submit(run, a_few(2));
  const auto judged = [&] { return run.answers.size(); };
  wait_until(run, [&] { return judged() >= 2; });
  CHECK(run.hello.lanes == std::vector<std::string>{"cuda"});
  CHECK_FALSE(run.wait(5, [&] { return judged() > 2; }));
  for (const auto& [sample, answer] : run.answers)
    CHECK(run.jobs[sample].lane == "cuda");

  // The scheduler takes this job for one of lane cuda. The host sees that its task is not.
  modules.front().lane = "cuda";
  const auto sample = run.submit(modules.front());
  wait_until(run, [&] { return judged() > 2; });
  const auto& v = run.answers[sample].judged;
  CHECK(short_verdict(v) == "infra_error");
  CHECK(contains(v.detail, "is of lane pytorch; this evaluator has lane cuda"));
  CHECK(run.infra_errors > 0);
  host->send_signal(SIGINT);
  const auto ended = host->wait(60_s);
  REQUIRE(ended.has_value());
  CHECK(describe(*ended) == "exit code 0");
}

TEST_CASE("two devices share the work, and each bears out the large claims of the other") {
  std::string device_class;
  const int gpus = usable_gpus(device_class);
  if (gpus == 0) return;
  if (gpus < 2) return skip("this machine has one GPU, the test needs two of a kind");
  gpu_run run(device_class, 110);  // most honest kernels are a large claim then
  REQUIRE(run.open().has_value());
  auto host = run.start_host("0,1", "host");
  REQUIRE(host.has_value());
  submit(run, a_few(30, "device_only"));
  wait_until(run, [&] { return all_in(run); });
  int confirmed = 0, unconfirmed = 0;
  for (const auto& [sample, answer] : run.answers) {
    CHECK(run.accepted[sample] == 1);
    const auto& v = answer.judged;
    // Two measurements 10 % apart are an answer too, and not about right or wrong.
    const bool fine = v.kind == env::verdict_kind::ok || v.kind == env::verdict_kind::unconfirmed;
    CHECK_MESSAGE(fine, short_verdict(v), " ", v.detail, " for ", run.jobs[sample].file);
    CHECK_FALSE(v.claim_e2.has_value());
    confirmed += answer.attempts > 1 && v.kind == env::verdict_kind::ok ? 1 : 0;
    unconfirmed += v.kind == env::verdict_kind::unconfirmed ? 1 : 0;
  }
  std::printf("%d claims, %d borne out by the other device, %d not\n", run.claims, confirmed,
              unconfirmed);
  CHECK(run.claims > 0);
  CHECK(confirmed > 0);
  int all = 0, least = 1 << 30;
  REQUIRE(run.sent.size() == 2);
  for (const auto& [device, count] : run.sent) {
    std::printf("device %lld had %d jobs\n", static_cast<long long>(device.device), count);
    all += count;
    least = std::min(least, count);
  }
  CHECK(4 * least >= all);
}
