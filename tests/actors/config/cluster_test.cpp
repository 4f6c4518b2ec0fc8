// Roles on several hosts: where they live, and the command that starts one there.
#include <algorithm>
#include <cstdlib>

#include "actors/config/config_file.hpp"
#include "actors/config/launch.hpp"
#include "actors/config/learner_setup.hpp"
#include "actors/config/placement.hpp"
#include "actors/config/process_plan.hpp"
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using quern::test::contains;
using base::operator""_s;

namespace {

using texts = std::vector<std::string>;

run_config cluster() {
  run_config config;
  config.cluster.launch = "ssh -o BatchMode=yes {host}";
  config.cluster.address = "node0";
  config.learner.ranks = 3;
  config.learner.hosts = "node1, node1,node0";
  config.actors.generator_host = "node2";
  return config;
}

template <class Result>
void refused_with(const Result& result, std::initializer_list<std::string_view> parts) {
  REQUIRE_FALSE(result);
  CAPTURE(result.error().message);
  for (const std::string_view part : parts)
    CHECK(contains(result.error().message, part));
}

/// What a shell makes of the words of `command`, as ssh does: joined by spaces, then read again.
std::string read_by_shell(const texts& command) {
  std::string text;
  for (const std::string& word : command)
    text += (text.empty() ? "" : " ") + word;
  const auto folder = base::temp_folder::make().value();
  auto child =
      base::subprocess::start({.argv = {"/bin/sh", "-c", text}, .log = folder.path() / "log"});
  REQUIRE(child);
  REQUIRE(child->wait(60_s));
  return base::read_file(folder.path() / "log").value();
}

}  // namespace

TEST_CASE("roles go where they are named, and all are here by default") {
  const auto all_here = placement_of({}).value();
  CHECK_FALSE(all_here.spread());
  CHECK(all_here.ranks == texts{""});
  CHECK(addresses_of({}, all_here).value().at("") == "127.0.0.1");
  run_config config = cluster();
  config.env.evaluators = 3;
  config.env.evaluator_hosts = "node3,node4";
  const auto where = placement_of(config).value();
  // node0 is cluster.address.
  CHECK(where.ranks == texts{"node1", "node1", ""});
  CHECK(where.generator == "node2");
  CHECK(where.evaluators == texts{"node3", "node4", "node3"});
  CHECK(where.others() == texts{"node1", "node2", "node3", "node4"});
  CHECK(where.ranks_beside(0) == 2);
  CHECK(where.ranks_beside(2) == 1);
  CHECK(check_config(config));
  config.stage = "sft";
  CHECK_FALSE(placement_of(config).value().spread());
}

TEST_CASE("what is wrong with hosts is said with key, value and what to do") {
  run_config config = cluster();
  config.learner.hosts = "node1,node1";
  refused_with(placement_of(config),
               {"learner.hosts names 2 hosts", "learner.ranks is 3", "one name a rank"});
  refused_with(check_config(config), {"learner.hosts"});
  config.learner.hosts = "node1,node 2,node3";
  refused_with(placement_of(config), {"learner.hosts", "'node 2'"});
  config.learner.hosts = "node1,-oProxyCommand=x,node3";
  refused_with(placement_of(config), {"no name of a host"});
  config = cluster();
  config.actors.generator_host = "a;b";
  refused_with(placement_of(config), {"actors.generator_host", "'a;b'"});
  config = cluster();
  config.cluster.address = "";
  refused_with(placement_of(config), {"node1", "cluster.address is empty"});
  config = cluster();
  config.cluster.launch = "";
  refused_with(placement_of(config), {"cluster.launch is empty", "ssh -o BatchMode=yes {host}"});
  config.cluster.launch = "ssh node1";
  refused_with(placement_of(config), {"cluster.launch is 'ssh node1'", "{host}"});
  config = cluster();
  config.env.evaluator_hosts = "node1,node2";
  refused_with(placement_of(config), {"env.evaluator_hosts names 2", "env.evaluators is 1"});
  config = cluster();
  config.cluster.address = "127.0.0.1";
  config.learner.hosts = "127.0.0.2,127.0.0.2,127.0.0.1";
  // No name at all, so that nobody is asked for it.
  config.actors.generator_host = "a..b";
  const auto where = placement_of(config).value();
  refused_with(addresses_of(config, where), {"the host 'a..b'", "knows no address"});
}

TEST_CASE("an address that no other host reaches is refused") {
  run_config config = cluster();
  CHECK(check_addresses(config, {{"", "10.0.0.1"}, {"node1", "10.0.0.2"}}));
  CHECK(check_addresses(config, {{"", "127.0.0.1"}, {"node1", "127.0.0.2"}}));
  refused_with(check_addresses(config, {{"", "10.0.0.1"}, {"node1", "127.0.1.1"}}),
               {"node1", "127.0.1.1", "cluster.address"});
  refused_with(check_addresses(config, {{"", "127.0.1.1"}, {"node1", "10.0.0.2"}}),
               {"cluster.address is node0 (127.0.1.1)", "node1"});
  for (const char* any : {"0.0.0.0", "::"}) {
    refused_with(check_addresses(config, {{"", any}, {"node1", "10.0.0.2"}}),
                 {"node0", any, "every address", "by which the other hosts reach it"});
    refused_with(check_addresses(config, {{"", "10.0.0.1"}, {"node1", any}}), {"node1", any});
  }
  config.cluster.address = "0.0.0.0";
  config.learner.hosts = "127.0.0.2,127.0.0.2,127.0.0.2";
  config.actors.generator_host = "";
  refused_with(addresses_of(config, placement_of(config).value()), {"0.0.0.0", "every address"});
}

TEST_CASE("two names of one host, and addresses of two kinds, are refused") {
  run_config config = cluster();
  refused_with(check_addresses(config, {{"", "10.0.0.1"}, {"node0.domain", "10.0.0.1"}}),
               {"node0 and node0.domain are one host (10.0.0.1)", "write one name",
                "the value of cluster.address"});
  refused_with(check_addresses(
                   config, {{"", "10.0.0.1"}, {"node1", "10.0.0.2"}, {"node1.domain", "10.0.0.2"}}),
               {"node1 and node1.domain are one host (10.0.0.2)"});
  refused_with(check_addresses(config, {{"", "10.0.0.1"}, {"node1", "fd00::2"}}),
               {"host node1 is fd00::2", "node0 (10.0.0.1)", "one of IPv6", "of one kind"});
  refused_with(check_addresses(config, {{"", "::1"}, {"node1", "127.0.0.2"}}), {"of one kind"});
  CHECK(check_addresses(config, {{"", "fd00::1"}, {"node1", "fd00::2"}}));
  config.cluster.address = "127.0.0.1";
  config.learner.hosts = "localhost,localhost,127.0.0.1";
  config.actors.generator_host = "";
  refused_with(addresses_of(config, placement_of(config).value()),
               {"127.0.0.1 and localhost are one host"});
}

TEST_CASE("GPUs are numbers of their own host") {
  run_config config = cluster();
  config.learner.device = "cuda";
  CHECK(learner_devices(config).value() == std::vector<std::int64_t>{0, 1, 0});
  config.learner.devices = "1,2,1";
  CHECK(learner_devices(config).value() == std::vector<std::int64_t>{1, 2, 1});
  config.learner.devices = "1,1,2";
  refused_with(learner_devices(config), {"learner.devices is '1,1,2'"});
  config.env.lane = "cuda";
  config.env.evaluators = 4;
  config.env.evaluator_hosts = "node1,node2";
  config.env.gpus = "4,5";
  const std::vector<int> both = {4, 5};
  CHECK(measuring_gpus(config, "node1").value() == both);
  CHECK(measuring_gpus(config, "node2").value() == both);
  CHECK(measuring_gpus(config, "").value().empty());
  // Hosts need not stand there in turns.
  config.env.evaluator_hosts = "node1,node1,node2,node1";
  CHECK(measuring_gpus(config, "node1").value() == std::vector<int>{4, 5, 4});
  CHECK(measuring_gpus(config, "node2").value() == std::vector<int>{4});
  config.env.evaluator_hosts = "";
  CHECK(gpu_of_evaluator(config, 3).value() == 5);
  CHECK(measuring_gpus(config, "").value() == std::vector<int>{4, 5, 4, 5});
}

TEST_CASE("weights go through memory on this machine alone, else over links") {
  run_config config = cluster();
  CHECK(weights_by_link(config).value());
  config.actors.weights = "memory";
  refused_with(weights_by_link(config), {"actors.weights is memory",
                                         "rank 0 is on node1 and the generator on node2", "auto"});
  // On one other host: control, in whose memory the folder for weights is, is not there.
  config.actors.generator_host = "node1";
  refused_with(weights_by_link(config),
               {"actors.weights is memory", "rank 0 is on node1 and the generator on node1"});
  config.actors.weights = "auto";
  CHECK(weights_by_link(config).value());
  config.learner.hosts = "node0,node1,node1";
  CHECK(weights_by_link(config).value());
  config.actors.generator_host = "node0";
  CHECK_FALSE(weights_by_link(config).value());
  config.actors.generator_host = "";
  config.actors.weights = "memory";
  CHECK_FALSE(weights_by_link(config).value());
}

TEST_CASE("a link that is needed between hosts and cannot be is refused") {
  run_config config = cluster();
  config.learner.device = config.actors.generator_device = "cuda";
  CHECK(weights_by_link(config).value());
  // The same number, on another host: another GPU.
  CHECK(config.actors.generator_gpu == 0);
  config.actors.generator_host = "node1";
  refused_with(weights_by_link(config),
               {"the generator on node1", "both with GPU 0", "actors.generator_gpu", "live here"});
  config.actors.generator_gpu = 2;
  CHECK(weights_by_link(config).value());
  config.actors.generator_device = "cpu";
  for (const char* host : {"node1", "node2", "node0"}) {
    config.actors.generator_host = host;
    refused_with(weights_by_link(config), {"learner.device is cuda", "rank 0 is on node1"});
  }
  config.learner.hosts = "";
  CHECK_FALSE(weights_by_link(config).value());
}

TEST_CASE("words are quoted so that a shell reads them back") {
  const texts argv = {"/bin/echo", "a b", "it's", "$HOME", "a;b", "", "*", "\"", "\\", "x\ny"};
  texts quoted;
  for (const std::string& word : argv)
    quoted.push_back(shell_quoted(word));
  CHECK(quoted[0] == "/bin/echo");
  CHECK(read_by_shell(quoted) == "a b it's $HOME a;b  * \" \\ x\ny\n");
}

TEST_CASE("a launch command gets words, or one text where a shell reads them") {
  const texts environment = {"NCCL_NVLS_ENABLE=0", "QUERN_SHARE=/my data"};
  const texts argv = {"/opt/quern torch", "learner", "--rank", "1"};
  constexpr const char* text =
      "env NCCL_NVLS_ENABLE=0 'QUERN_SHARE=/my data' '/opt/quern torch' learner --rank 1";
  // env is a program that is everywhere; it stands for srun.
  const auto words =
      launch_command("env --nodes=1  --nodelist={host}", "node7", environment, argv).value();
  REQUIRE(words.size() == 10);
  CHECK(words[0].ends_with("/env"));
  CHECK(words[1] == "--nodes=1");
  CHECK(words[2] == "--nodelist=node7");
  CHECK(texts(words.begin() + 3, words.begin() + 6) ==
        texts{"env", "NCCL_NVLS_ENABLE=0", "QUERN_SHARE=/my data"});
  CHECK(texts(words.begin() + 6, words.end()) == argv);
  const auto marked = launch_command("sh -c {command} {host}", "node7", environment, argv).value();
  REQUIRE(marked.size() == 4);
  CHECK(marked[2] == text);
  CHECK(marked[3] == "node7");
  const auto folder = base::temp_folder::make().value();
  const std::string ssh = (folder.path() / "ssh").string();
  REQUIRE(base::write_file_atomic(ssh, "#!/bin/sh\n"));
  std::filesystem::permissions(ssh, std::filesystem::perms::owner_all);
  const auto by_ssh = launch_command(ssh + " -T {host}", "node7", environment, argv).value();
  CHECK(by_ssh == texts{ssh, "-T", "node7", text});
  // Behind another program ssh would get words, which its shell takes apart.
  for (const char* hidden : {"timeout 9 ssh {host}", "env X=1 /usr/bin/ssh -T {host}"})
    refused_with(launch_command(hidden, "node7", environment, argv), {hidden, "put {command}"});
  CHECK(launch_command("env X=1 ssh {host} {command}", "node7", environment, argv).value().back() ==
        text);
  CHECK(check_launch("srun --ntasks=1 --nodelist={host} --comment=ssh"));
  refused_with(launch_command("no-such-launcher {host}", "node7", {}, argv),
               {"cluster.launch begins with 'no-such-launcher'", "PATH"});
}

TEST_CASE("through two hosts in a row each shell takes one layer of quotes") {
  const auto folder = base::temp_folder::make().value();
  const std::string ssh = (folder.path() / "ssh").string();
  // As ssh does: its words with blanks between, to a shell.
  REQUIRE(base::write_file_atomic(ssh, "#!/bin/sh\nshift\nexec /bin/sh -c \"$*\"\n"));
  std::filesystem::permissions(ssh, std::filesystem::perms::owner_all);
  const texts argv = {"/bin/echo", "a  b", "it's", "$HOME", "a;b", "*"};
  for (const std::string& pattern :
       {ssh + " jump " + ssh + " {host} {command}",
        ssh + " jump " + ssh + " inner " + ssh + " {host} {command}", ssh + " {host} {command}"}) {
    CAPTURE(pattern);
    const auto log = folder.path() / "log";
    std::filesystem::remove(log);
    auto child = base::subprocess::start(
        {.argv = launch_command(pattern, "node7", {}, argv).value(), .log = log});
    REQUIRE(child);
    REQUIRE(child->wait(60'000'000'000));
    CHECK(base::read_file(log).value() == "a  b it's $HOME a;b *\n");
  }
}

TEST_CASE("what ssh's shell reads is what was planned, and each start has its number") {
  process_plan plan{"learner-1", {.argv = {"/bin/echo", "it's", "a;b"}, .environment = {"A=1"}}};
  const auto here = started_as(plan, 4).value();
  CHECK(here.argv == texts{"/bin/echo", "it's", "a;b", "--start", "4"});
  CHECK(here.environment == texts{"A=1"});
  CHECK_FALSE(here.input);
  plan.host = "node1";
  plan.launch = "sh -c {command} {host}";
  plan.spec.input = "secret\n";
  const auto there = started_as(plan, 5).value();
  CHECK(there.environment.empty());
  CHECK(there.input == "secret\n");
  for (const std::string& word : there.argv)
    CHECK_FALSE(contains(word, "secret"));
  CHECK(contains(there.argv[2], "A=1 /bin/echo"));
  CHECK(read_by_shell({there.argv[2]}) == "it's a;b --start 5\n");
  plan.spec.input.reset();
  // It lives for as long as its input is open.
  CHECK(started_as(plan, 6).value().input == "");
}

TEST_CASE("how threads wait goes along to other hosts, and what else OpenMP is told does not") {
  const char* const name = "OMP_WAIT_POLICY";
  const char* const set = std::getenv(name);
  const std::string before = set == nullptr ? "" : set;
  ::setenv(name, "active", 1);
  ::setenv("OMP_PROC_BIND", "true", 1);
  const texts found = travelling_environment();
  ::unsetenv("OMP_PROC_BIND");
  if (before.empty())
    ::unsetenv(name);
  else
    ::setenv(name, before.c_str(), 1);
  CHECK(std::ranges::count(found, "OMP_WAIT_POLICY=active") == 1);
  CHECK(std::ranges::none_of(found, [](const std::string& one) {
    return one.starts_with("OMP_") && !one.starts_with("OMP_WAIT_POLICY=");
  }));
}
