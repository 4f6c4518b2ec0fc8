// A whole run through the commands that a person types.
#include <csignal>

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/checkpoint.hpp"
#include "storage/database.hpp"
#include "storage/jsonl.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

/// What metrics and status tell of roles, whatever the numbers are.
void check_roles(const base::json& told) {
  CAPTURE(base::dump(told));
  CHECK(told["span_s"].get<double>() > 0);
  CHECK(told["tokens_generated"].get<std::int64_t>() > 0);
  CHECK(told["evaluations"].get<std::int64_t>() > 0);
  CHECK(told["held_back"]["text"].is_string());
  for (const char* role : {"generator", "learner", "evaluator", "control"}) {
    const base::json& of = told["roles"][role];
    const double sum =
        of["busy"].get<double>() + of["idle"].get<double>() + of["device_wait"].get<double>();
    CHECK(sum == doctest::Approx(1).epsilon(0.001));
    CHECK(of["busy"].get<double>() > 0);
    CHECK(of["absent"].get<double>() < 1);
  }
}

void check_metrics(const fs::path& run, std::int64_t steps) {
  std::int64_t lines = 0;
  REQUIRE(storage::read_jsonl(run / "metrics.jsonl", [&](const base::json& line) -> base::status {
    ++lines;
    // The first samples of a run are made and judged before its first step.
    if (lines == 1) check_roles(line);
    CHECK(line["roles"].size() == 4);
    CHECK(line["tokens_per_s"].is_number());
    CHECK(line["evaluations_per_h"].is_number());
    std::int64_t samples = 0;
    for (const auto& [age, count] : line["ages"].items())
      samples += count.get<std::int64_t>();
    CHECK(samples > 0);
    CHECK(line["age_mean"].get<double>() >= 0);
    return {};
  }));
  CHECK(lines == steps);
}

}  // namespace

namespace {

/// Of a step of learning on samples of its own weights, all of them.
base::json learner_figures(const fs::path& run, const std::vector<std::string>& settings) {
  std::vector<std::string> all{"actors.staleness=0", "observe.evaluation_set=false",
                               "observe.log_level=warning"};
  // Sums of a width at which their order shows.
  if (run_of_machine().empty())
    all.push_back("policy.model=" + (source_dir() / "policy/demo").string());
  all.insert(all.end(), settings.begin(), settings.end());
  const finished trained = run_to_end(train_command(run, 1, all), run.string() + ".log");
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);
  base::json figures;
  REQUIRE(storage::read_jsonl(run / "metrics.jsonl", [&](const base::json& line) -> base::status {
    figures = line["learner"];
    return {};
  }));
  CHECK(figures["mismatch_tokens"].get<double>() > 0);
  CHECK(figures["mismatch_tokens"] == figures["tokens"]);
  return figures;
}

/// The closing report of a complete run can be made again, without measuring again.
void check_report(const fs::path& run, const fs::path& folder) {
  const std::string report = base::read_file(run / "report.txt").value_or("");
  CHECK(contains(report, "mean reward, held out"));
  // The page was made while the run had its lock.
  CHECK(contains(base::read_file(run / "report.html").value_or(""), "\"state\":\"complete\""));
  const std::string evaluation_set = base::read_file(run / "evaluation_set.json").value_or("");
  for (const char* command : {"resume", "report"}) {
    CAPTURE(command);
    fs::remove(run / "report.txt");
    fs::remove(run / "report.html");
    const finished made = run_to_end({program("quern"), command, run.string()}, folder / command);
    CAPTURE(made.output);
    CHECK(made.code == 0);
    CHECK(contains(made.output, report));
    CHECK(base::read_file(run / "report.txt").value_or("") == report);
    CHECK(fs::exists(run / "report.html"));
    CHECK(base::read_file(run / "evaluation_set.json").value_or("") == evaluation_set);
  }
}

}  // namespace

TEST_CASE("exact: generator and learner agree to the bit, and only then") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const base::json exact = learner_figures(folder->path() / "exact", {"actors.exact=true"});
  CHECK(exact["mismatch_max"].get<double>() == 0);
  CHECK(exact["behaviour_kl"].get<double>() == 0);
  const base::json fast = learner_figures(folder->path() / "fast", {"actors.exact=false"});
  CHECK(fast["mismatch_max"].get<double>() > 0);
}

TEST_CASE("train, status, sample and export do what they say") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run";
  const fs::path log = folder->path() / "log";
  auto argv = train_command(run, 2,
                            {"observe.evaluation_set_train=4", "observe.evaluation_set_held_out=2",
                             "observe.log_level=warning"});
  // Tests have it set (cmake/Quern.cmake).
  const std::string policy = "OMP_WAIT_POLICY";
  argv.insert(argv.begin(), {"/usr/bin/env", "-u", policy});
  auto control = base::subprocess::start({.argv = std::move(argv), .log = log});
  REQUIRE(control);
  REQUIRE(wait_until(300_s, [&] { return counts_of(run).issued_ever > 0 || control->poll(); }));
  // Threads that spin while they wait would take the cores of others.
  const auto generators = find_processes({"quern-torch", "generator", run.string()});
  CHECK_FALSE(generators.empty());
  for (const pid_t pid : generators)
    CHECK(contains(base::read_file("/proc/" + std::to_string(pid) + "/environ").value_or(""),
                   policy + "=passive"));
  // Somebody looks at run.db and does not go away.
  auto reader = storage::database::open(run / "run.db", storage::database::access::read);
  REQUIRE(reader);
  REQUIRE((*reader)->execute("BEGIN; SELECT count(*) FROM samples"));
  const auto ended = control->wait(600_s);
  REQUIRE(ended);
  const finished trained{ended->code, base::read_file(log).value()};
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);
  CHECK(contains(trained.output, "copy run.db-wal with run.db"));
  CHECK(fs::exists(run / "kernels"));
  check_report(run, folder->path());
  reader->reset();
  check_law(run);
  CHECK(version_of(run) == 2);
  CHECK(trained.output.find("mean reward, held out") != std::string::npos);
  CHECK(fs::exists(run / "evaluation_set.json"));
  // The level holds in every process of the run.
  CHECK(trained.output.find(" info ") == std::string::npos);
  for (const auto& one : fs::directory_iterator(run / "logs"))
    CHECK(base::read_file(one.path()).value().find(" info ") == std::string::npos);

  const finished status =
      run_to_end({program("quern"), "status", run.string(), "--json"}, folder->path() / "status");
  REQUIRE(status.code == 0);
  const auto parsed = base::parse_json(status.output);
  REQUIRE(parsed);
  CHECK((*parsed)["running"] == false);
  CHECK((*parsed)["ledger"]["law_holds"] == true);
  check_roles((*parsed)["loop"]);
  const finished told =
      run_to_end({program("quern"), "status", run.string()}, folder->path() / "status.txt");
  CAPTURE(told.output);
  CHECK(contains(told.output, ": complete\n"));
  CHECK(contains(told.output, "role        busy    idle  device wait   waits for\n"));
  CHECK(contains(told.output, (*parsed)["loop"]["held_back"]["text"].get<std::string>()));
  check_metrics(run, 2);

  REQUIRE(base::write_file_atomic(folder->path() / "prompt", "cpp-avx2\ndef forward(x):\n"));
  const finished sampled =
      run_to_end({program("quern"), "sample", run.string(), "--prompt",
                  (folder->path() / "prompt").string(), "--n", "2", "--max-tokens", "8", "--json"},
                 folder->path() / "sample");
  CAPTURE(sampled.output);
  REQUIRE(sampled.code == 0);
  const auto line = base::parse_json(sampled.output.substr(0, sampled.output.find('\n')));
  REQUIRE(line);
  CHECK((*line)["token_ids"].size() == (*line)["log_probs"].size());

  const finished exported =
      run_to_end({program("quern"), "export", run.string(), (folder->path() / "model").string()},
                 folder->path() / "export");
  CHECK(exported.code == 0);
  // A policy that `sample` would refuse is not handed out, with the file that is wrong.
  const fs::path broken = folder->path() / "broken";
  fs::copy(folder->path() / "model", broken);
  REQUIRE(base::write_file_atomic(broken / "tokenizer.json", "{}"));
  const finished refused = run_to_end(
      {program("quern"), "export", broken.string(), (folder->path() / "model2").string()},
      folder->path() / "export2");
  CAPTURE(refused.output);
  CHECK(refused.code != 0);
  CHECK(contains(refused.output, "tokenizer.json"));
  CHECK_FALSE(fs::exists(folder->path() / "model2"));
  // Nor one whose checkpoint is not what was written, nor an older one in its place without a word.
  storage::checkpoint_store store(run / "checkpoints");
  fs::remove_all(store.folder_of(1));
  REQUIRE(store.write(1, [&](const fs::path& draft) {
    fs::copy(folder->path() / "model", draft / "model", fs::copy_options::recursive);
    return base::status();
  }));
  const fs::path weights = run / "checkpoints/v00000002/model/model.safetensors";
  std::string bytes = base::read_file(weights).value();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  REQUIRE(base::write_file_atomic(weights, bytes));
  for (const char* name : {"v00000002", "v00000002/", "v00000002/model", "v00000002/model/"}) {
    CAPTURE(name);
    const finished damaged =
        run_to_end({program("quern"), "export", (run / "checkpoints" / name).string(),
                    (folder->path() / "model3").string()},
                   folder->path() / "export3");
    CAPTURE(damaged.output);
    CHECK(damaged.code != 0);
    CHECK(contains(damaged.output, "model.safetensors"));
    CHECK_FALSE(fs::exists(folder->path() / "model3"));
  }
  CHECK(fs::exists(folder->path() / "model/model.safetensors"));
  const std::string older = (folder->path() / "older").string();
  const finished silent =
      run_to_end({program("quern"), "export", run.string(), older}, folder->path() / "export4");
  CAPTURE(silent.output);
  CHECK(silent.code == 1);
  CHECK(contains(silent.output, "take version 1 with --older"));
  CHECK_FALSE(fs::exists(older));
  const finished wanted = run_to_end({program("quern"), "export", run.string(), older, "--older"},
                                     folder->path() / "export5");
  CAPTURE(wanted.output);
  CHECK(wanted.code == 0);
  CHECK(contains(wanted.output, "version 1, not of version 2"));
  CHECK(fs::exists(older));

  const finished again =
      run_to_end({program("quern"), "resume", run.string()}, folder->path() / "again");
  CHECK(again.code == 4);
}

namespace {

/// A port that was free a moment ago.
int free_port() {
  const base::unique_fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(socket.get(), any, length) == 0);
  REQUIRE(::getsockname(socket.get(), any, &length) == 0);
  return ntohs(address.sin_port);
}

}  // namespace

namespace {

/// Of a run that goes on and starts no evaluator again: one dies, and `quern status` says why it is
/// not there.
void check_set_aside(const fs::path& run, const fs::path& folder) {
  const auto meta = base::parse_json(base::read_file(run / "meta.json").value()).value();
  const auto evaluators =
      find_processes({"quern", "evaluator", "--connect", meta["sockets"].get<std::string>()});
  REQUIRE_FALSE(evaluators.empty());
  REQUIRE(::kill(evaluators.front(), SIGKILL) == 0);
  std::string told;
  const auto status = [&](const char* name, std::vector<std::string> more) {
    more.insert(more.begin(), {program("quern"), "status", run.string()});
    // Logs are appended to.
    fs::remove(folder / name);
    return run_to_end(more, folder / name).output;
  };
  CHECK(wait_until(60_s, [&] {
    told = status("aside", {});
    return contains(told, "  SET ASIDE evaluator-");
  }));
  CAPTURE(told);
  CHECK(contains(told, "its log is " + (run / "logs/evaluator-").string()));
  const auto json = base::parse_json(status("aside.json", {"--json"}));
  REQUIRE(json);
  const base::json live = (*json)["live"];
  REQUIRE(live.contains("aside"));
  CHECK(live["aside"].size() == 1);
}

}  // namespace

TEST_CASE("steps that no checkpoint holds are taken again, however few are wanted now") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run", copy = folder->path() / "copy";
  auto control = base::subprocess::start(
      {.argv = train_command(run, 8,
                             {"observe.evaluation_set=false", "storage.checkpoint_every_steps=100",
                              "env.protocol=cost_model/1", "actors.restarts=0"}),
       .log = folder->path() / "log"});
  REQUIRE(control);
  CHECK(wait_until(120_s, [&] {
    return counts_of(run).of(storage::sample_state::consumed) > 0 || control->poll();
  }));
  check_set_aside(run, folder->path());
  // A copy of a run that goes on is not the run. Only what does not change under the copy.
  fs::create_directory(copy);
  for (const char* name : {"meta.json", "LOCK", "config.yaml"})
    fs::copy_file(run / name, copy / name);
  const finished order =
      run_to_end({program("quern"), "pause", copy.string()}, folder->path() / "pause.log");
  CHECK(order.code == 1);
  CHECK(contains(order.output, "not going on"));
  REQUIRE_FALSE(control->poll());
  control->send_signal(SIGKILL);
  REQUIRE(control->wait(10_s));
  REQUIRE(version_of(run) == -1);
  const finished end =
      run_to_end({program("quern"), "resume", run.string(), "--set", "learner.steps=1"},
                 folder->path() / "resume.log");
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(version_of(run) == 1);
  check_law(run);
  const finished made =
      run_to_end({program("quern"), "export", run.string(), (folder->path() / "model").string()},
                 folder->path() / "export.log");
  CHECK(made.code == 0);
  CHECK(fs::exists(folder->path() / "model" / "config.json"));
}

TEST_CASE("a run without evaluators waits for one that joins over tcp with a key that is listed") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path& at = folder->path();
  const auto make_key = [&](const char* name) {
    const finished made = run_to_end({program("quern"), "keys", (at / name).string()},
                                     at / (std::string(name) + ".public"));
    REQUIRE(made.code == 0);
    return made.output.substr(0, 40);
  };
  make_key("run.key");
  REQUIRE(base::write_file_atomic(at / "hosts", make_key("host.key") + " the only one\n"));
  const std::string unadmitted_key = make_key("unadmitted.key");
  const std::string address = "tcp://127.0.0.1:" + std::to_string(free_port());
  const fs::path run = at / "run";
  auto control = base::subprocess::start(
      {.argv = train_command(run, 1,
                             {"observe.evaluation_set=false", "env.evaluators=0",
                              "env.bind=" + address, "env.keys=" + (at / "run.key").string(),
                              "env.hosts=" + (at / "hosts").string(), "env.protocol=cost_model/1"}),
       .log = at / "log"});
  REQUIRE(control);
  CHECK(wait_until(300_s, [&] {
    return counts_of(run).of(storage::sample_state::generated) > 0 || control->poll();
  }));
  // A run that goes on tells what its roles do; one of them is missing.
  const finished told =
      run_to_end({program("quern"), "status", run.string()}, folder->path() / "status");
  CAPTURE(told.output);
  CHECK(contains(told.output, "evaluator  not there\n"));
  CHECK_FALSE(contains(told.output, "generator  not there\n"));
  const auto join = [&](const char* key) {
    return base::subprocess::start(
        {.argv = {program("quern"), "evaluator", "--connect", address, "--sandbox", "best_effort",
                  "--keys", (at / key).string(), "--gateway-key", (at / "run.key.pub").string(),
                  "--patience", "6"},
         .log = at / (std::string(key) + ".log")});
  };
  // A key that is not listed gets no answer, and gives up.
  auto unadmitted = join("unadmitted.key");
  REQUIRE(unadmitted);
  const auto refused = unadmitted->wait(60_s);
  REQUIRE(refused);
  CHECK(refused->code == 1);
  const auto log_of = [&](const char* name) { return base::read_file(at / name).value_or(""); };
  CHECK(contains(log_of("unadmitted.key.log"), "does not admit this host's public key"));
  CHECK(contains(log_of("log"), "with the public key " + unadmitted_key + " is refused"));
  CHECK(counts_of(run).of(storage::sample_state::trained) == 0);
  auto host = join("host.key");
  REQUIRE(host);
  const auto end = control->wait(300_s);
  CAPTURE(base::read_file(at / "log").value_or(""));
  REQUIRE(end);
  CHECK(end->code == 0);
  // Both sides have said who joined whom, and with what.
  CHECK(contains(log_of("host.key.log"), "has joined run "));
  CHECK(contains(log_of("log"), "has joined: lanes cpp; devices 0 (cpp-"));
  check_law(run);
}
