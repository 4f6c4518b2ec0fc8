// Lanes and devices of evaluator hosts, with lanes that no source of Quern knows: real processes of
// `quern evaluator` at a gateway, and a dispatch actor that is sent two texts of one candidate.
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "actors/control/dispatching.hpp"
#include "base/subprocess.hpp"
#include "env/screen/canonical.hpp"
#include "env/task/task_codec.hpp"
#include "env/verdict/verdict.hpp"
#include "lanes/toy/toy_fixture.hpp"
#include "lanes/toy/toy_lane.hpp"
#include "tests/actors/gateway/run_fixture.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

const char* const doubling_task = R"(quern_task: 1
name: doubling
lane: cpp
family: elementwise
sizes: {n: 4096}
hidden_sizes: [{n: 7}, {n: 101}]
inputs:
  - {name: x, dtype: f32, shape: [n], dist: [normal, large, sparse, uniform]}
outputs:
  - {name: y, dtype: f32, shape: [n]}
tolerance: {atol: 1.0e-6, rtol: 1.0e-5}
baseline: reference
cost: {bytes: 8*n, flops: n}
reference: |
  def forward(x):
      return x * 2
)";

/// The same in a toy lane, whose tasks have no tensors.
const char* const doubling_toy = R"(quern_task: 1
name: doubling
lane: LANE
family: elementwise
word: kernel
tolerance: {atol: 0, rtol: 0}
baseline: reference
lines: 40
reference: |
  Twice the number.
)";

/// Wrong in lane cpp, and right in the toy lanes: it names a kernel. No time of it is taken.
const char* const tripling_kernel = R"(
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 3;
}
)";

/// A device as a test names it: "3 toy-gpu-1: toy_gpu".
std::vector<std::string> texts_of(const env::hello_message& hello) {
  std::vector<std::string> texts;
  for (const env::host_device& device : hello.devices)
    texts.push_back(fmt::format("{} {}: {}", device.id, device.device_class,
                                fmt::format("{}", fmt::join(device.lanes, ","))));
  return texts;
}

struct hosts_fixture : toy_fixture {
  actors::test::run_fixture run;
  std::string endpoint = "ipc://" + (folder.path() / "hosts").string();

  hosts_fixture() {
    run.tasks["cpp"] = doubling_task;
    for (const char* const lane : {"toy", "toy_gpu", "other_toy_gpu"}) {
      std::string text = doubling_toy;
      run.tasks[lane] = text.replace(text.find("LANE"), 4, lane);
    }
    run.source = tripling_kernel;
    actors::gateway_options options;
    options.endpoints = {endpoint};
    options.incarnation = 1;
    options.heartbeat_ms = 200;
    REQUIRE(run.open(options));
  }
  std::vector<std::string> command(const fs::path& quern, std::vector<std::string> words) const {
    words.insert(words.begin(),
                 {quern.string(), "evaluator", "--connect", endpoint, "--sandbox", "best_effort"});
    return words;
  }
  /// An evaluator host that has joined.
  base::subprocess join(const fs::path& quern, std::vector<std::string> words) {
    auto started = base::subprocess::start({.argv = command(quern, std::move(words)),
                                            .environment = {"QUERN_SHARE=" + source_dir().string()},
                                            .log = folder.path() / "host"});
    REQUIRE(started);
    const bool joined = run.wait([&] { return !run.joined.empty(); });
    CAPTURE(base::read_file(folder.path() / "host").value_or(""));
    REQUIRE(joined);
    return std::move(*started);
  }
  /// The verdict on a sample that goes to a device of this lane and class.
  env::verdict judged(actors::sample_id sample, const std::string& lane,
                      const std::string& device_class) {
    run.submit(sample, device_class, lane);
    const bool came = run.wait([&] { return run.verdicts.contains(sample); });
    CAPTURE(base::read_file(folder.path() / "host").value_or(""));
    REQUIRE(came);
    return env::parse_verdict(run.verdicts.at(sample)).value();
  }
  /// A command line that is refused.
  std::string refused(std::vector<std::string> words) {
    const finished end = run_to_end(command(toy_programs() / "quern", std::move(words)),
                                    folder.path() / ("log" + std::to_string(++commands)));
    CHECK(end.code != 0);
    return end.output;
  }
};

}  // namespace

TEST_CASE_FIXTURE(hosts_fixture, "a host offers a core of two lanes, and judges in both") {
  const whole_programs programs("toy_hosts");
  auto host = join(programs.quern(), {"--lanes", "toy,cpp"});
  CHECK(run.hello.lanes == std::vector<std::string>{"cpp", "toy"});
  REQUIRE(run.hello.devices.size() == 2);
  const std::string core_class = run.hello.devices[0].device_class;
  CHECK(texts_of(run.hello) ==
        std::vector<std::string>{"0 " + core_class + ": cpp", "1 toy-text: toy"});

  const env::verdict toy = judged(1, "toy", "toy-text");
  CHECK(toy.kind == env::verdict_kind::ok);
  CHECK(toy.device_class == "toy-text");
  CHECK(toy.speedup_e2 == 1000);  // four lines
  CHECK(run.sent_to.at(1).device == 1);
  const env::verdict cpp = judged(2, "cpp", core_class);
  CAPTURE(cpp.detail);
  CHECK(cpp.kind == env::verdict_kind::wrong_value);
  CHECK(cpp.device_class == core_class);
  CHECK(run.sent_to.at(2).device == 0);

  run.door().drain_hosts();
  const auto end = host.wait(30_s);
  REQUIRE(end);
  CHECK(end->code == 0);
}

TEST_CASE_FIXTURE(hosts_fixture, "a host offers each lane on each GPU") {
  auto host =
      join(toy_programs() / "quern", {"--lanes", "toy,toy_gpu,other_toy_gpu", "--gpus", "0,1"});
  CHECK(run.hello.lanes == std::vector<std::string>{"other_toy_gpu", "toy", "toy_gpu"});
  // The first lane on a GPU has the number of the GPU.
  CHECK(texts_of(run.hello) ==
        std::vector<std::string>{"0 toy-gpu-0: toy_gpu", "1 toy-gpu-1: toy_gpu", "2 toy-text: toy",
                                 "3 toy-gpu-0: other_toy_gpu", "4 toy-gpu-1: other_toy_gpu"});
  actors::sample_id sample = 0;
  for (const env::host_device& device : std::vector(run.hello.devices)) {
    const env::verdict v = judged(++sample, device.lanes.at(0), device.device_class);
    CAPTURE(v.detail);
    CHECK(v.kind == env::verdict_kind::ok);
    CHECK(v.device_class == device.device_class);
    CHECK(run.sent_to.at(sample).device == device.id);
  }
}

TEST_CASE_FIXTURE(hosts_fixture, "of one lane on one GPU the device names no lanes") {
  auto host =
      join(toy_programs() / "quern", {"--lanes", "other_toy_gpu,other_toy_gpu", "--gpus", "1,1"});
  CHECK(run.hello.lanes == std::vector<std::string>{"other_toy_gpu"});
  CHECK(texts_of(run.hello) == std::vector<std::string>{"1 toy-gpu-1: "});
  CHECK(judged(1, "other_toy_gpu", "toy-gpu-1").kind == env::verdict_kind::ok);
}

TEST_CASE_FIXTURE(hosts_fixture, "lanes and devices that do not go together are refused") {
  CHECK(contains(refused({"--lanes", "other_toy_gpu,toy"}),
                 "--lanes names other_toy_gpu, but no GPU is named: add --gpus"));
  CHECK(contains(refused({"--lanes", "toy,cpp", "--gpus", "0"}),
                 "--gpus names GPUs, but --lanes has no lane that uses them"));
  const std::string unknown = refused({"--lanes", "toy,ptx"});
  CHECK(contains(unknown, "ptx"));
  CHECK(contains(unknown, "other_toy_gpu"));
  // What lane cpp lacks is said, though the other lane has all that it needs.
  CHECK(contains(refused({"--lanes", "toy,cpp"}), "quern-runner"));
}

TEST_CASE("two texts are one candidate where their lane says so, whatever C++ would make of them") {
  const std::string small = "the kernel\nis short\n";
  const std::string large = "THE KERNEL\nIS SHORT\n";
  REQUIRE(env::source_hash(small) != env::source_hash(large));
  const base::hash128 hash = env::toy_lane.identity(small);
  REQUIRE(hash == env::toy_lane.identity(large));
  // And two where C++ would see one.
  const std::string spread = "the kernel\n\nis short\n";
  REQUIRE(env::source_hash(small) == env::source_hash(spread));
  REQUIRE(hash != env::toy_lane.identity(spread));

  actors::run_config config;
  config.env.lane = "toy";
  config.tasks.source = "suite";
  config.tasks.suite = toy_suite();
  dispatching d(config, "toy-text");
  d.say(env::hello_message{1, 1, "raw", 7, {"toy"}, {{0, "toy-text", 3}}});
  const auto session = next<env::welcome_message>(*d.host).session;
  d.say(env::credit_message{session, 0, 3});
  actors::sample_id sample = 0;
  for (const std::string& text : {small, large, spread})
    caf::anon_send(*d.dispatch,
                   actors::evaluate_sample{1, ++sample, d.tasks->tasks()[0].id, text, 0, 0, 0});
  std::map<std::string, base::hash128> asked;
  for (sample = 1; sample <= 3; ++sample) {
    const auto job = next<env::job_message>(*d.host);
    asked[job.source] = job.source_hash;
    d.say(env::failed_message{session, job.lease, "by a test", 0});
  }
  CHECK(asked == std::map<std::string, base::hash128>{
                     {small, hash}, {large, hash}, {spread, env::toy_lane.identity(spread)}});
  // What the run says itself of a lost attempt names the same candidates.
  REQUIRE(d.ears.wait_for(0, 3));
  std::multiset<std::string> lost, expected{base::to_hex(hash), base::to_hex(hash),
                                            base::to_hex(env::toy_lane.identity(spread))};
  for (const auto& news : d.ears.all_verdicts())
    lost.insert(env::parse_verdict(news.json).value().source);
  CHECK(lost == expected);
  d.self.end_actors();
}
