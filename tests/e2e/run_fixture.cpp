// Runs as children of a test.
#include "e2e/run_fixture.hpp"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "storage/ledger.hpp"
#include "support/test.hpp"

namespace quern::test {

namespace fs = std::filesystem;
using base::operator""_s;

namespace {

std::vector<std::string> words_of(const char* variable) {
  std::vector<std::string> found;
  const char* const text = std::getenv(variable);
  for (const auto one : base::split(text != nullptr ? text : "", ' '))
    if (!one.empty()) found.emplace_back(one);
  return found;
}

}  // namespace

std::string program(const char* name) {
  return (program_dir() / name).string();
}

std::string small_policy() {
  return (source_dir() / "tests/e2e/policy").string();
}

std::vector<std::string> train_command(const fs::path& run, std::int64_t steps,
                                       const std::vector<std::string>& settings) {
  std::vector<std::string> all = {
      "run.folder=" + run.string(), "learner.steps=" + std::to_string(steps),
      "algorithm.group_size=4",     "tasks.count=4",
      "tasks.held_out_count=2",     "env.sandbox=best_effort",
      "policy.max_new_tokens=300"};
  // A configuration of the machine names a policy of its own.
  if (run_of_machine().empty()) all.push_back("policy.model=" + small_policy());
  for (std::string& one : settings_of_machine())
    all.push_back(std::move(one));
  all.insert(all.end(), settings.begin(), settings.end());
  std::vector<std::string> argv = {program("quern"), "train"};
  for (std::string& one : run_of_machine())
    argv.push_back(std::move(one));
  if (argv.size() == 2) argv.push_back((source_dir() / "configs/quickstart.yaml").string());
  for (std::string& one : all) {
    argv.emplace_back("--set");
    argv.push_back(std::move(one));
  }
  return argv;
}

std::vector<std::string> settings_of_machine() {
  return words_of("QUERN_TEST_SETTINGS");
}

std::vector<std::string> run_of_machine() {
  return words_of("QUERN_TEST_RUN");
}

const char* const sft_config = R"(quern_config: 2
run: {name: sft}
stage: sft
policy: {layers: 1, width: 32, heads: 2, kv_heads: 1, head_width: 16, mlp_width: 64,
         vocabulary: 300, max_prompt_tokens: 900, max_new_tokens: 420}
tasks: {seed: 1000, corpus_tasks: 4, corpus_variants: 2, corpus_exemplars_share: 0}
env: {evaluators: 1, sandbox: best_effort}
learner: {steps: 100000, batch_samples: 2, device: cpu}
storage: {checkpoint_every_steps: 2}
)";

std::int64_t sft_checkpoint_of(const fs::path& run, const fs::path& log) {
  // Logs are appended to.
  fs::remove(log);
  const finished status = run_to_end({program("quern"), "status", run.string(), "--json"}, log);
  if (status.code != 0) return -1;
  return base::parse_json(status.output).value()["sft"]["checkpoint"].get<std::int64_t>();
}

finished run_to_end(std::vector<std::string> argv, const fs::path& log) {
  auto child = base::subprocess::start({.argv = std::move(argv), .log = log});
  REQUIRE(child);
  const auto end = child->wait(600_s);
  REQUIRE_MESSAGE(end, "a command did not end within 10 minutes");
  return {end->signal == 0 ? end->code : -end->signal, base::read_file(log).value_or("")};
}

std::vector<std::string> whole_lines_of(const std::filesystem::path& file) {
  std::vector<std::string> all;
  const std::string text = base::read_file(file).value_or("");
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    all.push_back(text.substr(begin, end - begin));
  return all;
}

storage::state_counts counts_of(const fs::path& run) {
  auto db = storage::database::open(run / "run.db", storage::database::access::read);
  if (!db) return {};
  auto ledger = storage::ledger::open(**db);
  if (!ledger) return {};
  return (*ledger)->counts().value_or(storage::state_counts{});
}

std::map<std::string, std::int64_t> drop_reasons_of(const fs::path& run) {
  auto db = storage::database::open(run / "run.db", storage::database::access::read);
  if (!db) return {};
  auto ledger = storage::ledger::open(**db);
  if (!ledger) return {};
  return (*ledger)->drop_reasons().value_or(std::map<std::string, std::int64_t>{});
}

std::int64_t version_of(const fs::path& run) {
  auto db = storage::database::open(run / "run.db", storage::database::access::read);
  if (!db) return -1;
  auto ledger = storage::ledger::open(**db);
  if (!ledger) return -1;
  const auto position = (*ledger)->position();
  return position && position->checkpoint ? position->checkpoint->version : -1;
}

void check_law(const fs::path& run) {
  auto db = storage::database::open(run / "run.db", storage::database::access::read);
  REQUIRE(db);
  auto ledger = storage::ledger::open(**db);
  REQUIRE(ledger);
  CHECK((*ledger)->audit());
  const auto counts = (*ledger)->counts().value();
  CHECK(counts.law_holds());
  CHECK(counts.in_flight() == 0);
  CHECK(counts.of(storage::sample_state::trained) > 0);
}

std::vector<pid_t> find_processes(const std::vector<std::string>& words) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    const std::string line = base::read_file(entry.path() / "cmdline").value_or("");
    bool all = !line.empty();
    for (const std::string& word : words)
      all &= line.find(word) != std::string::npos;
    if (all) found.push_back(pid);
  }
  return found;
}

std::vector<pid_t> find_children(pid_t parent, const std::vector<std::string>& words) {
  std::vector<pid_t> found = find_processes(words);
  std::erase_if(found, [&](pid_t pid) {
    // Behind the name in parentheses: state, parent.
    const std::string stat = base::read_file(fmt::format("/proc/{}/stat", pid)).value_or("");
    const auto end = stat.rfind(')');
    return end == std::string::npos || end + 4 >= stat.size() ||
           std::strtol(stat.c_str() + end + 4, nullptr, 10) != parent;
  });
  return found;
}

}  // namespace quern::test
