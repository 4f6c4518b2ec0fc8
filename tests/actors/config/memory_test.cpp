// What a run plans to hold in memory, against machines that are made up.
#include <initializer_list>

#include "actors/config/learner_setup.hpp"
#include "actors/config/memory_check.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

/// 1.8 billion parameters.
policy::model_config large_model() {
  policy::model_config model;
  model.vocab_size = 151'936;
  model.hidden_size = 1536;
  model.intermediate_size = 8960;
  model.layers = 28;
  model.heads = 12;
  model.kv_heads = 2;
  model.head_dim = 128;
  model.max_positions = 32'768;
  return model;
}

/// All on GPU 0.
run_config on_gpus() {
  run_config config;
  config.learner.device = config.actors.generator_device = "cuda";
  return config;
}

/// Learner and generator on GPUs of their own.
run_config apart() {
  run_config config = on_gpus();
  config.actors.generator_gpu = 1;
  return config;
}

machine_memory machine_of(std::initializer_list<std::int64_t> gpus) {
  return {.host = 2048 * gib, .driver = true, .gpus = gpus};
}

std::string refusal_of(const run_config& config, const machine_memory& machine) {
  const auto checked = check_memory(config, large_model(), machine);
  if (checked) return "";
  CHECK(checked.error().code == base::errc::exhausted);
  return checked.error().message;
}

void check_parts(const std::string& text, std::initializer_list<std::string_view> parts) {
  CAPTURE(text);
  for (const std::string_view part : parts)
    CHECK(contains(text, part));
}

}  // namespace

TEST_CASE("a learner that does not fit on its GPU is refused with the keys that make it fit") {
  run_config config = apart();
  const std::int64_t needed =
      policy::plan_learner(large_model(), learner_demand_of(config)).total();
  CHECK(refusal_of(config, machine_of({needed, 80 * gib})).empty());
  check_parts(refusal_of(config, machine_of({needed - 1, 80 * gib})),
              {"learner.device is cuda, rank 0 has GPU 0", "it fits with learner.recompute=",
               "moments", "learner.precision=bfloat16", "a smaller policy.model"});
  check_parts(
      refusal_of(config, machine_of({35 * gib, 80 * gib})),
      {"rank 0 has GPU 0", "35.0 GiB is there", "learner.ranks=", "a smaller policy.model"});
  check_parts(refusal_of(config, machine_of({8 * gib, 80 * gib})),
              {"no setting makes it fit", "a smaller policy.model"});
  // The GPU of that number, and of this machine.
  config.learner.devices = "1";
  config.actors.generator_gpu = 0;
  CHECK(refusal_of(config, machine_of({80 * gib, needed})).empty());
  check_parts(refusal_of(config, machine_of({80 * gib, 8 * gib})), {"rank 0 has GPU 1"});
  config.learner.hosts = "node1";
  config.cluster.launch = "ssh {host}";
  config.cluster.address = "node0";
  CHECK(refusal_of(config, machine_of({80 * gib, 8 * gib})).empty());
}

TEST_CASE("nothing is refused where the size of a GPU is not known") {
  const run_config config = on_gpus();
  CHECK(refusal_of(config, {.host = 2048 * gib}).empty());
  CHECK(refusal_of(config, {.host = gib}).empty());
  CHECK(refusal_of(config, machine_of({})).empty());
  run_config far = config;
  far.learner.devices = "3";
  far.actors.generator_gpu = 3;
  CHECK(refusal_of(far, machine_of({gib})).empty());
}

TEST_CASE("several threads on a GPU are told, and one is proposed where that is enough") {
  run_config config = apart();
  const machine_memory machine = machine_of({80 * gib, 80 * gib});
  CHECK(warning_of_threads(config, machine).empty());
  const std::int64_t alone = policy::plan_learner(large_model(), learner_demand_of(config)).total();
  config.learner.threads = 2;
  check_parts(warning_of_threads(config, machine),
              {"learner.threads is 2", "learner.threads to 1"});
  check_parts(refusal_of(config, machine_of({alone, 80 * gib})), {"learner.threads=1"});
  config.learner.device = "auto";
  CHECK(warning_of_threads(config, machine).empty());
  config.stage = "sft";
  CHECK_FALSE(warning_of_threads(config, machine).empty());
  CHECK(warning_of_threads(config, {.host = gib}).empty());
  config.learner.device = "cpu";
  CHECK(warning_of_threads(config, machine).empty());
}

TEST_CASE("stage sft on auto is checked against the GPU that it will take, or the host") {
  run_config config;
  config.stage = "sft";
  const auto of_gpu = refusal_of(config, machine_of({8 * gib}));
  check_parts(of_gpu,
              {"learner.device is auto, rank 0 has GPU 0", "policy.layers", "policy.width"});
  CHECK(refusal_of(config, machine_of({200 * gib})).empty());
  CHECK(refusal_of(config, {.host = 2048 * gib}).empty());
  check_parts(refusal_of(config, {.host = 8 * gib}),
              {"learner.device is auto, the learner is here", "policy.layers"});
  // A driver whose GPUs cannot be asked: one of them will be taken, the host is for checkpoints.
  CHECK(refusal_of(config, {.host = 64 * gib, .driver = true}).empty());
  check_parts(refusal_of(config, {.host = 8 * gib, .driver = true}), {"of host memory"});
}

TEST_CASE("a generator needs room for one sequence; more of them take what is left") {
  const run_config config = apart();
  const auto model = large_model();
  const policy::generator_demand all = generator_demand_of(config, model);
  CHECK(all.slots == 2 * config.algorithm.groups_per_step * config.algorithm.group_size);
  CHECK(all.capacity == config.policy.max_prompt_tokens + config.policy.max_new_tokens);
  const std::int64_t weights = 2 * 4 * std::int64_t{1'780'000'000};
  CHECK(policy::plan_generator(model, all).total() > weights + gib);
  // Less than the plan of all, more than that of one.
  CHECK(refusal_of(config, machine_of({200 * gib, weights + 2 * gib})).empty());
  const auto told = refusal_of(config, machine_of({200 * gib, 10 * gib}));
  check_parts(told, {"actors.generator_gpu is 1, which has 10.0 GiB", "weights of the next version",
                     "policy.max_new_tokens", "policy.max_prompt_tokens",
                     "actors.generator_precision to bfloat16", "smaller policy.model"});
  CHECK_FALSE(contains(told, "a GPU of its own"));
  run_config half = config;
  half.actors.generator_precision = half.learner.precision = "bfloat16";
  CHECK(generator_demand_of(half, model).weight_bytes == 2);
  CHECK(generator_demand_of(half, model).value_bytes == 2);
  CHECK(refusal_of(half, machine_of({200 * gib, 10 * gib})).empty());
  half.learner.precision = "float32";
  CHECK(generator_demand_of(half, model).weight_bytes == 3);
  CHECK(generator_demand_of(half, model).value_bytes == 2);
}

TEST_CASE("a generator on the CPU must find room for its whole cache") {
  run_config config;
  // The learner is elsewhere.
  config.learner.hosts = "node1";
  config.cluster.launch = "ssh {host}";
  config.cluster.address = "node0";
  const auto model = large_model();
  const std::int64_t needed =
      policy::plan_generator(model, generator_demand_of(config, model)).total();
  CHECK(refusal_of(config, {.host = needed}).empty());
  check_parts(refusal_of(config, {.host = needed - 1}),
              {"actors.generator_device is cpu, and this machine has ", "GiB of host memory",
               "keys and values of 32 x 1320 tokens", "there is room for 31 sequences",
               "algorithm.groups_per_step or policy.max_new_tokens"});
  config.algorithm.group_size = 64;
  config.algorithm.groups_per_step = 40;
  machine_memory bounded{.host = 64 * gib};
  bounded.host_limit = "/sys/fs/cgroup/job/memory.max";
  check_parts(refusal_of(config, bounded),
              {"64.0 GiB of host memory (the limit of its control group, "
               "/sys/fs/cgroup/job/memory.max)",
               "keys and values of 5120 x 1320 tokens"});
  // On another host it is left to the process there.
  config.actors.generator_host = "node1";
  CHECK(refusal_of(config, {.host = 64 * gib}).empty());
}

TEST_CASE("the roles on the CPU of a machine must fit into it together") {
  run_config config;
  const auto model = large_model();
  const policy::learner_demand learner = learner_demand_of(config);
  const std::int64_t files = 4 * 4 * policy::parameter_count(model),
                     learning = policy::plan_learner(model, learner).total() +
                                policy::plan_checkpoint(model, learner, true).total(),
                     sum =
                         learning +
                         policy::plan_generator(model, generator_demand_of(config, model)).total();
  CHECK(refusal_of(config, {.host = sum}).empty());
  CHECK(learning < sum - gib);  // each role alone would fit into what follows
  machine_memory machine{.host = sum - 1};
  machine.host_limit = "/sys/fs/cgroup/memory.max";
  check_parts(refusal_of(config, machine),
              {"plan to hold", "of its own memory together", "GiB of host memory (the limit",
               "/sys/fs/cgroup/memory.max", "learner ", "checkpoint on its way to files",
               "generator: keys and values of 32 x 1320 tokens", "it fits with",
               "learner.recompute=full", "algorithm.groups_per_step=1", "a smaller policy.model"});
  // New weights are kept in memory, too.
  machine.host = sum + files;
  machine.shared_place = "/dev/shm";
  machine.shared = static_cast<std::uint64_t>(files);
  CHECK(refusal_of(config, machine).empty());
  --machine.host;
  check_parts(refusal_of(config, machine), {"4 files of new weights", "actors.weights"});
  // Each generator has a cache and weights of its own, and may hold a file that was replaced.
  run_config two = config;
  two.actors.generators = 2;
  const std::int64_t more =
      policy::plan_generator(model, generator_demand_of(config, model)).total() + files / 4;
  machine.shared = static_cast<std::uint64_t>(files + files / 4);
  machine.host = sum + files + more;
  CHECK(refusal_of(two, machine).empty());
  --machine.host;
  check_parts(refusal_of(two, machine),
              {"2 generators: keys and values", "5 files of new weights"});
  machine.host = 2048 * gib;
  check_parts(describe_memory(config, model, machine),
              {"# memory of this machine, all roles that are here together: ",
               " of 2.0 TiB of host memory (the limit of its control group"});
}

TEST_CASE("a search needs no memory for a learner, nor for new weights") {
  run_config config;
  const auto model = large_model();
  const std::int64_t generator =
      policy::plan_generator(model, generator_demand_of(config, model)).total();
  machine_memory machine{.host = generator};
  machine.shared_place = "/dev/shm";
  machine.shared = 1;
  CHECK_FALSE(refusal_of(config, machine).empty());
  config.stage = "search";
  CHECK(refusal_of(config, machine).empty());
  machine.host = generator - 1;
  CHECK_FALSE(refusal_of(config, machine).empty());
}

TEST_CASE("a GPU that both have must hold both") {
  const run_config config = on_gpus();
  const std::int64_t learner =
      policy::plan_learner(large_model(), learner_demand_of(config)).total();
  CHECK(refusal_of(config, machine_of({learner + 40 * gib})).empty());
  check_parts(refusal_of(config, machine_of({learner + gib})),
              {"actors.generator_gpu is 0", "of which a rank of the learner plans to hold",
               "a GPU of its own"});
}

TEST_CASE("weights that come as files take host memory on their way to a generator's GPU") {
  run_config config = apart();
  config.actors.weights = "link";
  machine_memory machine = machine_of({200 * gib, 200 * gib});
  // As much as is needed without files.
  machine.host = 0;
  while (!refusal_of(config, machine).empty())
    machine.host += gib / 4;
  CHECK_FALSE(contains(describe_memory(config, large_model(), machine), "on their way"));
  config.actors.weights = "memory";
  CHECK(contains(describe_memory(config, large_model(), machine), "new weights on their way"));
  check_parts(refusal_of(config, machine), {"new weights on their way to its GPU", "host memory"});
  machine.host += 4 * policy::parameter_count(large_model());
  CHECK(refusal_of(config, machine).empty());
}

TEST_CASE("files of weights need room in the shared memory, in the learner's precision") {
  run_config config = apart();
  config.actors.weights = "memory";
  machine_memory machine = machine_of({200 * gib, 200 * gib});
  CHECK(refusal_of(config, machine).empty());  // not known
  const auto halves = static_cast<std::uint64_t>(4 * 2 * policy::parameter_count(large_model()));
  machine.shared_place = "/dev/shm";
  machine.shared = halves;
  check_parts(refusal_of(config, machine),
              {"/dev/shm", "free", "4 versions of", "remount", "actors.weights to link"});
  config.learner.precision = "bfloat16";
  CHECK(refusal_of(config, machine).empty());
  machine.shared = halves - 1;
  CHECK_FALSE(refusal_of(config, machine).empty());
  // Over links nothing goes through it.
  config.actors.weights = "link";
  CHECK(refusal_of(config, machine).empty());
}

TEST_CASE("the plan of each process in lines, with what there is where that is known") {
  run_config config = apart();
  const std::string unknown = describe_memory(config, large_model(), {.host = 64 * gib});
  check_parts(unknown, {"# memory of the learner:\n", "#   held for", "at most",
                        "keys that make it smaller", "#   weights", "#   moments",
                        "# host memory of the learner while a checkpoint is made, beside that:\n",
                        "# memory of the generator, at most",
                        "#   keys and values of 32 x 1320 tokens", "#   in all"});
  CHECK_FALSE(contains(unknown, "on GPU"));
  check_parts(describe_memory(config, large_model(), machine_of({80 * gib, 40 * gib})),
              {"of 80.0 GiB on GPU 0", "of 40.0 GiB on GPU 1"});
  config.learner.ranks = 2;
  config.actors.generator_gpu = 3;
  check_parts(describe_memory(config, large_model(), machine_of({80 * gib, 80 * gib})),
              {"# memory of a learner rank:\n", "# host memory of rank 0 while"});
  config = {};
  CHECK(contains(describe_memory(config, large_model(), {}), "# memory of the generator:\n"));
  config.stage = "sft";
  CHECK_FALSE(contains(describe_memory(config, large_model(), {}), "generator"));
  config.stage = "search";
  const std::string alone = describe_memory(config, large_model(), {.host = 64 * gib});
  CHECK(contains(alone, "# memory of the generator:\n"));
  CHECK_FALSE(contains(alone, "learner"));
  CHECK_FALSE(contains(alone, "checkpoint"));
}
