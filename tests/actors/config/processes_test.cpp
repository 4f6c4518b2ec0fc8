// The processes of a run, each with the host it lives on.
#include "actors/processes.hpp"

#include <algorithm>
#include <cstdlib>

#include <sys/stat.h>

#include "actors/config/gpus.hpp"
#include "base/file.hpp"
#include "base/program.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

using texts = std::vector<std::string>;

std::string value_of(const texts& argv, const std::string& option) {
  const auto at = std::find(argv.begin(), argv.end(), option);
  return at == argv.end() || at + 1 == argv.end() ? "" : *(at + 1);
}

bool says(const texts& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct planned {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  run_config config;
  run_admission admission{4000, {"ipc:///hosts", "tcp://127.0.0.1:5000"}, "PUBLIC", "hush"};

  std::vector<process_plan> plans(const texts& workers) const {
    std::vector<process_plan> all;
    const auto roles =
        plan_roles(config, hosts_of_run(config).value(), {folder.path()}, admission, workers);
    for (const role& one : roles.value()) {
      const auto made = one.plan({});
      all.insert(all.end(), made->begin(), made->end());
    }
    return all;
  }
};

}  // namespace

TEST_CASE("generators are as many as is said, on one host, each with a name and a log") {
  if (!base::sibling_program("quern-torch")) return test::skip("quern-torch is not built");
  planned f;
  f.config.env.evaluators = 0;
  f.config.actors.generators = 3;
  const auto roles = plan_roles(f.config, hosts_of_run(f.config).value(), {f.folder.path()},
                                f.admission, {"learner", "generator"})
                         .value();
  REQUIRE(roles.size() == 3);
  CHECK(roles[1].name == "generator");
  CHECK(roles[1].restarts == role_restarts::alone);
  CHECK(roles[2].restarts == role_restarts::aside);
  const auto plans = roles[1].plan({}).value();
  REQUIRE(plans.size() == 3);
  CHECK(plans[0].name == "generator");
  CHECK(plans[2].name == "generator-2");
  CHECK(plans[0].spec.argv == plans[2].spec.argv);
  CHECK(plans[0].spec.log != plans[2].spec.log);
  CHECK(f.plans({"generator"}).size() == 3);
}

TEST_CASE("on one machine nothing is launched, and control is at the loopback") {
  if (!base::sibling_program("quern-torch")) return test::skip("quern-torch is not built");
  planned f;
  f.config.env.evaluators = 2;
  const auto plans = f.plans({"learner", "generator"});
  REQUIRE(plans.size() == 4);
  for (const process_plan& plan : plans) {
    CHECK(plan.host.empty());
    CHECK(plan.launch.empty());
    CHECK_FALSE(says(plan.spec.argv, "--host"));
    CHECK_FALSE(says(plan.spec.argv, "--until-input-ends"));
    for (const std::string& word : plan.spec.argv)
      CHECK_FALSE(test::contains(word, "hush"));
    CHECK(plan.spec.environment.empty());
  }
  CHECK(value_of(plans[0].spec.argv, "--control") == "127.0.0.1:4000");
  CHECK(plans[0].spec.input == "hush\n");
  CHECK(plans[3].name == "evaluator-1");
  CHECK(value_of(plans[3].spec.argv, "--connect") == "ipc:///hosts");
  CHECK_FALSE(plans[3].spec.input);
  const auto gateway =
      gateway_of(f.config, hosts_of_run(f.config).value(), {f.folder.path()}, "/hosts", 1).value();
  CHECK(gateway.endpoints == texts{"ipc:///hosts"});
  CHECK_FALSE(gateway.keys);
}

TEST_CASE("evaluators of a lane of cores get GPUs in turn where env.device is gpu") {
  if (!base::sibling_program("quern-torch")) return test::skip("quern-torch is not built");
  planned f;
  f.config.env.lane = "pytorch";
  f.config.env.gpus = "2,5";
  f.config.env.evaluators = 3;
  const auto gpus_of_plans = [&] {
    texts found;
    for (const process_plan& plan : f.plans({}))
      found.push_back(value_of(plan.spec.argv, "--gpus"));
    return found;
  };
  CHECK(gpus_of_plans() == texts{"", "", ""});
  f.config.env.device = "gpu";
  CHECK(gpus_of_plans() == texts{"2", "5", "2"});
  CHECK(value_of(f.plans({}).front().spec.argv, "--lanes") == "pytorch");
}

TEST_CASE("numbers of GPUs here count within CUDA_VISIBLE_DEVICES") {
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  CHECK(only_gpu(1, "").value() == "CUDA_VISIBLE_DEVICES=1");
  ::setenv("CUDA_VISIBLE_DEVICES", "2, GPU-5", 1);
  CHECK(only_gpu(0, "").value() == "CUDA_VISIBLE_DEVICES=2");
  CHECK(only_gpu(1, "").value() == "CUDA_VISIBLE_DEVICES=GPU-5");
  CHECK(only_gpu(1, "node7").value() == "CUDA_VISIBLE_DEVICES=1");
  const auto beyond = only_gpu(2, "");
  REQUIRE_FALSE(beyond);
  CHECK(test::contains(beyond.error().message, "GPU 2 is asked for"));
  CHECK(test::contains(beyond.error().message, "'2, GPU-5'"));
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_CASE(
    "a GPU that is not here is refused with the key that names it; those of other hosts are "
    "theirs") {
  run_config config;
  config.learner.device = "cuda";
  config.learner.ranks = 2;
  CHECK(check_gpu_numbers(config, 2));
  const auto refused = [&](std::int64_t there, std::string_view key) {
    const auto checked = check_gpu_numbers(config, there);
    REQUIRE_FALSE(checked);
    CAPTURE(checked.error().message);
    CHECK(test::contains(checked.error().message, key));
  };
  refused(1, "learner.devices asks for GPU 1, but 1 is here");
  config.learner.devices = "0,5";
  refused(4, "learner.devices asks for GPU 5, but 4 are here");
  config.learner.hosts = "here,node1";
  config.cluster.address = "here";
  config.cluster.launch = "env {host}";
  CHECK(check_gpu_numbers(config, 1));
  config.actors.generator_device = "cuda";
  config.actors.generator_gpu = 3;
  refused(3, "actors.generator_gpu asks for GPU 3");
  config.actors.generator_host = "node1";
  CHECK(check_gpu_numbers(config, 3));
  config.env.lane = "cuda";
  config.env.gpus = "0,3";
  config.env.evaluators = 2;
  refused(3, "env.gpus asks for GPU 3");
  config.stage = "sft";
  config.learner.device = "cpu";
  refused(3, "env.gpus");
  config.env.gpus = "0,2";
  CHECK(check_gpu_numbers(config, 3));
}

TEST_CASE("on several hosts each process has its host, its address and what it needs to get in") {
  if (!base::sibling_program("quern-torch")) return test::skip("quern-torch is not built");
  planned f;
  f.config.cluster.launch = "sh -c {command} {host}";
  f.config.cluster.address = "127.0.0.1";
  f.config.learner.ranks = 2;
  f.config.learner.device = "cuda";
  f.config.learner.hosts = "127.0.0.1,127.0.0.3";
  f.config.actors.generator_device = "cuda";
  f.config.actors.generator_host = "127.0.0.4";
  f.config.env.evaluators = 2;
  f.config.env.evaluator_hosts = "127.0.0.5,127.0.0.1";
  const auto plans = f.plans({"learner", "generator"});
  REQUIRE(plans.size() == 5);
  CHECK(plans[0].host.empty());
  CHECK(value_of(plans[0].spec.argv, "--host") == "127.0.0.1");
  CHECK(plans[1].name == "learner-1");
  CHECK(plans[1].host == "127.0.0.3");
  CHECK(plans[1].launch == f.config.cluster.launch);
  CHECK(value_of(plans[1].spec.argv, "--host") == "127.0.0.3");
  CHECK(value_of(plans[1].spec.argv, "--rank") == "1");
  CHECK(value_of(plans[1].spec.argv, "--control") == "127.0.0.1:4000");
  CHECK(plans[1].spec.environment == texts{"NCCL_NVLS_ENABLE=0", "CUDA_VISIBLE_DEVICES=0"});
  CHECK(plans[2].host == "127.0.0.4");
  CHECK(value_of(plans[3].spec.argv, "--connect") == "tcp://127.0.0.1:5000");
  CHECK(value_of(plans[3].spec.argv, "--gateway-key") == "PUBLIC");
  CHECK(says(plans[3].spec.argv, "--until-input-ends"));
  CHECK(plans[3].says_hello == introduction::to_gateway);
  CHECK(plans[2].says_hello == introduction::to_control);
  CHECK(plans[4].host.empty());
  CHECK(value_of(plans[4].spec.argv, "--connect") == "ipc:///hosts");
  const storage::run_paths paths{f.folder.path()};
  const auto hosts = hosts_of_run(f.config).value();
  const auto gateway = gateway_of(f.config, hosts, paths, "/hosts", 1).value();
  CHECK(gateway.endpoints == texts{"ipc:///hosts", "tcp://127.0.0.1:*"});
  REQUIRE(gateway.keys);
  CHECK(gateway.keys->hosts.size() == 1);
  struct stat info {};
  REQUIRE(::stat(value_of(plans[3].spec.argv, "--keys").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  // They are the same at the next start.
  CHECK(gateway_of(f.config, hosts, paths, "/hosts", 2).value().keys->own.public_key ==
        gateway.keys->own.public_key);
}
