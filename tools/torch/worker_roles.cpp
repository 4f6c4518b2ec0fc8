// quern-torch generator and learner: nodes of a run. quern-torch sft: the fine-tuning of stage sft.
#include <unistd.h>

#include "actors/config/config_file.hpp"
#include "actors/node.hpp"
#include "actors/workers/sft_worker.hpp"
#include "actors/workers/worker_actors.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/torch/roles.hpp"

namespace quern::tools {
namespace {

using spawner = void (*)(caf::actor_system&, const actors::replay_ref&, const actors::hello&,
                         const actors::run_config&);

int run_worker(int argc, char** argv, spawner spawn) {
  CLI::App app(std::string("quern-torch ") + argv[0] + ": started by quern train");
  std::string control;
  std::string file;
  app.add_option("--control", control, "HOST:PORT of the control process")->required();
  app.add_option("--config", file, "resolved configuration of the run")->required();
  std::int32_t rank = 0;
  app.add_option("--rank", rank, "of several learners");
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto config = actors::load_config(file, {});
  if (!config) return report(argv[0], config.error());
  base::set_log_level(config->observe.log_level);
  const auto address = actors::parse_address(control);
  if (!address) return report(argv[0], address.error());
  actors::node self;
  caf::actor_system& system = self.system();
  const auto replay = actors::connect_to_control(system, *address);
  if (!replay) return report(argv[0], replay.error());
  actors::hello introduction;
  introduction.role = argv[0];
  introduction.build = base::build_id();
  introduction.config = actors::config_hash(actors::to_yaml(*config));
  introduction.pid = static_cast<std::int32_t>(::getpid());
  introduction.rank = rank;
  spawn(system, *replay, introduction, *config);
  system.await_all_actors_done();
  return done;
}

}  // namespace

int role_generator(int argc, char** argv) {
  return run_worker(argc, argv, actors::spawn_generator);
}
int role_learner(int argc, char** argv) {
  return run_worker(argc, argv, actors::spawn_learner);
}

int role_sft(int argc, char** argv) {
  CLI::App app("quern-torch sft: started by quern train (stage sft)");
  std::string file;
  std::string corpus;
  std::string run;
  app.add_option("--config", file, "resolved configuration of the run")->required();
  app.add_option("--corpus", corpus, "folder of the corpus")->required();
  app.add_option("--run", run, "run directory")->required();
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto config = actors::load_config(file, {});
  if (!config) return report("sft", config.error());
  base::set_log_level(config->observe.log_level);
  const auto ended = actors::run_fine_tuning(*config, corpus, run);
  if (!ended) return report("sft", ended.error());
  return *ended;
}

}  // namespace quern::tools
