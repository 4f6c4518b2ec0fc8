// quern-torch generator and learner: nodes of a run. quern-torch sft: the fine-tuning of stage sft.
#include <chrono>

#include "actors/config/config_file.hpp"
#include "actors/defaults.hpp"
#include "actors/node.hpp"
#include "actors/workers/sft_worker.hpp"
#include "actors/workers/worker_actors.hpp"
#include "base/input_end.hpp"
#include "base/log.hpp"
#include "base/program.hpp"
#include "base/write_signals.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/torch/roles.hpp"

namespace quern::tools {
namespace {

using spawner = actors::worker_code (*)(actors::node&, const actors::orchestrator_ref&,
                                        const actors::hello&, const actors::run_config&,
                                        const actors::own_address&);

/// What makes it a process of the run: the secret comes by standard input, whose end is its own.
base::status introduce(actors::hello& from, const actors::run_config& config) {
  const auto secret = base::read_input_line();
  if (!secret)
    return base::fail(base::errc::invalid_argument,
                      "the run's secret is the first line of standard input: {}; a launch command "
                      "must pass its input on (ssh without -n)",
                      secret.error().message);
  from.secret = *secret;
  base::end_with_input(std::chrono::nanoseconds(actors::defaults::input_grace).count());
  from.build = base::build_id();
  from.config = actors::config_hash(actors::to_yaml(config));
  return {};
}

int run_worker(int argc, char** argv, spawner spawn) {
  CLI::App app("started by quern train", std::string("quern-torch ") + argv[0]);
  std::string control;
  std::string file;
  app.add_option("--control", control, "HOST:PORT of the control process")->required();
  app.add_option("--config", file, "resolved configuration of the run")->required();
  std::int32_t rank = 0;
  app.add_option("--rank", rank, "of several learners");
  std::int32_t start = 0;
  app.add_option("--start", start, "number of this start, by which the run knows it");
  actors::own_address here;
  const auto* host =
      app.add_option("--host", here.host, "address by which other hosts reach this process");
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto config = actors::load_run_config(file, {});
  if (!config) return report(argv[0], config.error());
  base::set_log_level(config->observe.log_level);
  const auto address = actors::parse_address(control);
  if (!address) return report(argv[0], address.error());
  actors::hello introduction;
  introduction.role = argv[0];
  introduction.start = start;
  introduction.rank = rank;
  if (auto known = introduce(introduction, *config); !known) return report(argv[0], known.error());
  const bool leads = introduction.role == "learner" && rank == 0;
  if (host->count() > 0 && leads) {
    auto opened = policy::rendezvous_directory::open(here.host);
    if (!opened) return report(argv[0], opened.error());
    here.rendezvous = std::move(*opened);
    introduction.rendezvous = here.rendezvous->address();
  }
  actors::node self;
  caf::actor_system& system = self.system();
  const auto orchestrator = actors::connect_to_control(system, *address);
  if (!orchestrator) return report(argv[0], orchestrator.error());
  const auto code = spawn(self, *orchestrator, introduction, *config, here);
  system.await_all_actors_done();
  return *code;
}

}  // namespace

int role_generator(int argc, char** argv) {
  return run_worker(argc, argv, actors::spawn_generator);
}
int role_learner(int argc, char** argv) {
  return run_worker(argc, argv, actors::spawn_learner);
}

int role_sft(int argc, char** argv) {
  // It speaks on the terminal of whoever started the run, who may be gone.
  base::ignore_broken_pipes();
  CLI::App app("started by quern train (stage sft)", "quern-torch sft");
  std::string file;
  std::string corpus;
  std::string run;
  app.add_option("--config", file, "resolved configuration of the run")->required();
  app.add_option("--corpus", corpus, "folder of the corpus")->required();
  app.add_option("--run", run, "run directory")->required();
  actors::tuning_place place;
  app.add_option("--rank", place.rank, "of several (learner.ranks)");
  app.add_option("--rendezvous", place.rendezvous, "where the ranks meet");
  app.add_option("--in-vain", place.in_vain, "losses since the last new checkpoint");
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto config = actors::load_run_config(file, {});
  if (!config) return report("sft", config.error());
  base::set_log_level(config->observe.log_level);
  const auto ended = actors::run_fine_tuning(*config, corpus, run, place);
  if (!ended) return report("sft", ended.error());
  return *ended;
}

}  // namespace quern::tools
