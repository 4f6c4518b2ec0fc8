// Files of simulated runs.
#include "tools/sim/run_files.hpp"

#include <cstdlib>
#include <unordered_map>

#include "base/log.hpp"

namespace quern::sim {
namespace {

namespace fs = std::filesystem;

/// Stops the program: without its files nothing can be simulated.
template <class T>
T must_have(base::expected<T> made) {
  if (made) return std::move(*made);
  base::log_error("simulation", "{}", made.error().message);
  std::abort();
}
void must_do(const base::status& done) {
  if (done) return;
  base::log_error("simulation", "{}", done.error().message);
  std::abort();
}

/// The orchestrator reads a model's tokenizer; of weights there is a hash.
struct shared_files {
  base::temp_folder folder = make_run_folder();
  fs::path model = folder.path() / "model";
  std::optional<actors::task_book> tasks;
  std::unordered_map<base::hash128, std::string> ids;

  shared_files() {
    must_do(base::make_folders(model));
    must_do(base::write_file_atomic(model / "config.json", "{}"));
    fs::copy(fs::path(QUERN_SOURCE_DIR) / "policy/demo/tokenizer.json", model);
    must_do(base::write_file_atomic(model / "hash", base::to_hex(weights::initial()->hash)));
    actors::run_config config;
    config.tasks.count = 3;
    config.tasks.held_out_count = 0;
    tasks.emplace(must_have(actors::task_book::make(config)));
    for (const auto& task : tasks->tasks())
      if (const auto hash = base::parse_hash(env::task_hash_of(task.id))) ids[*hash] = task.id;
  }
};

const shared_files& shared() {
  static const auto* const files = new shared_files;
  return *files;
}

}  // namespace

actors::run_config config_of(const scenario& plan) {
  actors::run_config config;
  config.run.seed = static_cast<std::int64_t>(plan.seed);
  config.tasks.count = 3;
  config.tasks.held_out_count = 0;
  config.policy.model = shared().model.string();
  config.algorithm.group_size = plan.group_size;
  config.algorithm.groups_per_step = plan.staleness.groups_per_step;
  config.learner.steps = 1'000'000;  // the world says when it is enough
  config.actors.staleness = plan.staleness.max_age;
  config.actors.stale_groups = actors::to_string(plan.staleness.policy);
  config.actors.restarts = 30;
  config.storage.checkpoint_every_steps = plan.checkpoint_every;
  config.replay.without_exemplars_share = plan.exemplars ? 0.5 : 1;
  config.replay.seed_variants = 2;
  return config;
}

const actors::task_book& shared_tasks() {
  return *shared().tasks;
}

const std::string& task_of(const base::hash128& hash) {
  static const std::string none;
  const auto found = shared().ids.find(hash);
  return found == shared().ids.end() ? none : found->second;
}

base::temp_folder make_run_folder() {
  static const bool in_memory = [] {
    std::error_code code;
    return fs::is_directory("/dev/shm", code) && ::setenv("TMPDIR", "/dev/shm", 0) == 0;
  }();
  (void)in_memory;
  return must_have(base::temp_folder::make());
}

base::status write_weights(const fs::path& folder, const base::hash128& hash) {
  QUERN_CHECK(base::make_folders(folder / "model"));
  QUERN_CHECK(base::write_file_atomic(folder / "model/config.json", "{}"));
  return base::write_file_atomic(folder / "model/hash", base::to_hex(hash));
}

base::expected<base::hash128> read_weights(const fs::path& model) {
  QUERN_TRY(const std::string text, base::read_file(model / "hash"));
  return base::parse_hash(text);
}

}  // namespace quern::sim
