// What can be known before a run begins is known before anything is made.
#include "actors/config/preflight.hpp"

#include <fstream>

#include "actors/config/cluster_check.hpp"
#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/config/reference_check.hpp"
#include "actors/orchestrator/prompter.hpp"
#include "base/file.hpp"
#include "base/program.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/plugin/key_file.hpp"
#include "env/plugin/zmq_socket.hpp"
#include "env/tensor_task/check.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
namespace fs = std::filesystem;

namespace {

struct fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  run_config config;
  run_beginning beginning = run_beginning::fresh;

  fixture() {
    config.env.sandbox = "best_effort";
    config.tasks.count = 3;
    config.tasks.held_out_count = 1;
  }
  fs::path run() const { return folder.path() / "run"; }

  /// The message of the refusal, after checking its code and that nothing was made.
  std::string refusal() const {
    const auto checked = preflight(config, run(), beginning);
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().code == base::errc::invalid_argument);
    if (beginning == run_beginning::fresh) CHECK_FALSE(fs::exists(run() / "meta.json"));
    return checked.error().message;
  }
  void refused_with(std::initializer_list<std::string_view> parts) const {
    const std::string message = refusal();
    CAPTURE(message);
    for (const std::string_view part : parts)
      CHECK(message.find(part) != std::string::npos);
  }
  /// A copy of the demo policy to be damaged.
  fs::path copy_model() {
    const fs::path to = folder.path() / "model";
    fs::copy(test::source_dir() / "policy/demo", to);
    config.policy.model = to.string();
    return to;
  }
};

bool programs_are_there() {
  if (base::sibling_program("quern-torch") && base::sibling_program("quern-runner")) return true;
  test::skip("quern-torch or quern-runner is not built");
  return false;
}

}  // namespace

TEST_CASE("what is right passes, and leaves nothing behind") {
  if (!programs_are_there()) return;
  fixture f;
  const auto tasks = preflight(f.config, f.run(), f.beginning);
  REQUIRE_MESSAGE(tasks, (tasks ? "" : tasks.error().message));
  CHECK(tasks->tasks().size() == 4);
  CHECK_FALSE(fs::exists(f.run()));
  f.config.stage = "sft";
  CHECK(preflight(f.config, f.run(), f.beginning));
}

TEST_CASE("a run with a ledger is refused on a network file system, by name") {
  if (!programs_are_there()) return;
  fixture f;
  fs::path asked;
  const auto check = [&] {
    return preflight(f.config, f.run(), f.beginning, nullptr, nullptr, [&](const fs::path& folder) {
      asked = folder;
      return storage::file_system{"Lustre", true};
    });
  };
  const auto refused = check();
  REQUIRE_FALSE(refused);
  CHECK(asked == f.run());
  for (const char* part : {"run.folder is '", "is on Lustre", "disk of this machine"})
    CHECK(test::contains(refused.error().message, part));
  // Stage sft has none.
  f.config.stage = "sft";
  CHECK(check());
}

TEST_CASE("what a run asks of the sandbox follows its device and form") {
  using env::sandboxed_code;
  run_config config;
  CHECK(sandboxed_code_of(config) == sandboxed_code::on_core);
  config.env.lane = "cuda";
  CHECK(sandboxed_code_of(config) == sandboxed_code::on_gpu);
  config.env.host_entry = true;
  CHECK(sandboxed_code_of(config) == sandboxed_code::host_code_on_gpu);
  config.env.host_entry = false;
  config.env.lane = "pytorch";
  CHECK(sandboxed_code_of(config) == sandboxed_code::on_core);
  config.env.device = "gpu";
  CHECK(sandboxed_code_of(config) == sandboxed_code::host_code_on_gpu);
}

TEST_CASE("the reward's name, the template's name and the suite") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.algorithm.reward = "speedup_caped/1";
  f.refused_with({"algorithm.reward", "speedup_caped/1", "did you mean 'speedup_capped/1'"});
  f.config = fixture().config;
  f.config.policy.template_name = "contrastive_demos";
  f.refused_with({"policy.template_name", "did you mean 'contrastive_demo'", "contrastive_full"});
  f.config.stage = "sft";
  f.refused_with({"policy.template_name"});
  f.config = fixture().config;
  f.config.tasks.source = "suite";
  f.config.tasks.suite = "/nonexistent";
  f.refused_with({"tasks.suite", "/nonexistent"});
}

TEST_CASE("a model that cannot be loaded is refused with what is missing") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.policy.model = "/nonexistent";
  f.refused_with({"policy.model", "/nonexistent", "Hugging Face"});
  f.config.policy.model = "";
  f.refused_with({"policy.model is empty", "--set policy.model=RUN/checkpoints/vN/model",
                  "quern export RUN FOLDER"});
  const fs::path model = f.copy_model();
  CHECK(preflight(f.config, f.run(), f.beginning));
  fs::resize_file(model / "model.safetensors", fs::file_size(model / "model.safetensors") / 2);
  f.refused_with({"policy.model", model.string()});
  fs::remove(model / "model.safetensors");
  f.refused_with({"policy.model", "model.safetensors"});
  fs::copy(test::source_dir() / "policy/demo/model.safetensors", model);
  fs::remove(model / "tokenizer.json");
  f.refused_with({"policy.model", "tokenizer.json"});
  fs::copy(test::source_dir() / "policy/demo/tokenizer.json", model);
  f.config.policy.max_prompt_tokens = 100'000;
  f.refused_with({"policy.model", "policy.max_prompt_tokens = 100000"});
}

TEST_CASE("prompt and answer together must fit the positions of the model") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.policy.max_new_tokens = 420;
  CHECK(preflight(f.config, f.run(), f.beginning));
  for (const std::int64_t answer : {421, 1'000'000}) {
    f.config.policy.max_new_tokens = answer;
    const std::string value = "policy.max_new_tokens is " + std::to_string(answer);
    f.refused_with({"policy.model", value, "policy.max_prompt_tokens 900", "1320 tokens in all",
                    "policy.max_new_tokens to 420 or less"});
  }
  // A later stage of a chain begins with a model of a shape that is known.
  const policy::model_config shape = policy_shape(f.config).value();
  const auto later = preflight(f.config, f.run(), run_beginning::later, nullptr, &shape);
  REQUIRE_FALSE(later);
  CHECK(test::contains(later.error().message, "policy.max_new_tokens is 1000000"));
  // The fresh model of stage sft has as many as are asked for.
  f.config.policy.max_new_tokens = 640;
  f.config.stage = "sft";
  CHECK(preflight(f.config, f.run(), f.beginning));
}

TEST_CASE("a task whose bare prompt is too long is refused by name") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.policy.max_prompt_tokens = 16;
  const auto tasks = task_book::make(f.config);
  REQUIRE(tasks);
  f.refused_with({"policy.max_prompt_tokens", tasks->tasks()[0].task->name, "the limit is 16"});
}

TEST_CASE("a task whose reference takes its process along is named") {
  class lost_oracle : public env::reference_oracle {
   public:
    base::expected<std::vector<env::tensor_bytes>> run(const env::task&, const env::task_instance&,
                                                       std::span<const env::tensor_bytes>,
                                                       bool) override {
      return base::fail(base::errc::unavailable, "the reference failed: the runner ended");
    }
    base::expected<std::int64_t> time_baseline(const env::task&, const env::task_instance&,
                                               std::span<const env::tensor_bytes>) override {
      return 0;
    }
  };
  fixture f;
  f.config.tasks.source = "suite";
  f.config.tasks.suite = (test::source_dir() / "env/suites/cpu_quick").string();
  const auto tasks = task_book::make(f.config);
  REQUIRE_MESSAGE(tasks, (tasks ? "" : tasks.error().message));
  env::tensor_checker checker(std::make_unique<lost_oracle>());
  const auto checked = check_references(f.config, *tasks, &checker);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().code == base::errc::unavailable);
  const std::string file = tasks->tasks().front().task->name + ".task.yaml";
  for (const std::string_view part : {std::string_view(file), std::string_view("the runner ended"),
                                      std::string_view("2.0 GiB")}) {
    CAPTURE(checked.error().message);
    CHECK(checked.error().message.find(part) != std::string::npos);
  }
}

TEST_CASE("the core must be one that this process may run on") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.env.core = 4000;
  f.refused_with({"env.core", "core 4000", "may run on (0"});
  // Nobody measures here: the hosts know their own cores.
  f.config.env.evaluators = 0;
  f.config.env.core = -1;
  CHECK(preflight(f.config, f.run(), f.beginning));
}

TEST_CASE("a device that cannot be had is refused, not replaced") {
  fixture f;
  f.config.learner.device = "cuda";
  if (fs::exists("/dev/nvidiactl")) return test::skip("there is a GPU");
  f.refused_with({"learner.device is cuda", "/dev/nvidiactl"});
  f.config.stage = "sft";
  f.refused_with({"learner.device is cuda", "/dev/nvidiactl"});
}

TEST_CASE("address, keys and hosts for evaluators of other machines") {
  if (!programs_are_there()) return;
  fixture f;
  const fs::path key = f.folder.path() / "key";
  const auto made = env::make_key_file(key);
  REQUIRE(made);
  REQUIRE(base::write_file_atomic(f.folder.path() / "hosts", made->public_key + "\n"));
  f.config.env.bind = "tcp://127.0.0.1:*";
  f.config.env.keys = key.string();
  f.config.env.hosts = (f.folder.path() / "hosts").string();
  CHECK(preflight(f.config, f.run(), f.beginning));
  env::zmq_context context;
  auto taken = env::zmq_socket::open(context, env::socket_kind::router);
  REQUIRE(taken);
  REQUIRE(taken->bind("tcp://127.0.0.1:*"));
  f.config.env.bind = taken->endpoint();
  f.refused_with({"env.bind", f.config.env.bind});
  f.config.env.bind = "nonsense";
  f.refused_with({"env.bind", "tcp://ADDRESS:PORT"});
  f.config.env.keys = "/nonexistent";
  f.refused_with({"env.keys", "/nonexistent"});
  f.config.env.keys = key.string();
  f.config.env.hosts = key.string() + ".hosts";
  f.refused_with({"env.hosts"});
}

TEST_CASE("a folder that cannot become a run") {
  if (!programs_are_there()) return;
  fixture f;
  std::ofstream(f.run()) << "a file";
  f.refused_with({"is there and no folder"});
  fs::remove(f.run());
  REQUIRE(base::make_folders(f.run()));
  CHECK(preflight(f.config, f.run(), f.beginning));
  std::ofstream(f.run() / "notes") << "mine";
  f.refused_with({"is there and not empty"});
  std::ofstream(f.folder.path() / "plain") << "a file";
  const auto below = preflight(f.config, f.folder.path() / "plain/run", f.beginning);
  REQUIRE_FALSE(below);
  CHECK(below.error().message.find("is no folder") != std::string::npos);
  f.config.stage = "sft";
  f.config.env.evaluators = 0;
  f.config.tasks.corpus_folder = (f.folder.path() / "corpus").string();
  fs::remove_all(f.run());
  f.refused_with({"env.evaluators is 0", "tasks.corpus_folder"});
}

TEST_CASE("names and folders that cannot be made are refused") {
  fixture f;
  for (const char* name : {"a/b", "../x", "..", "", "a\nb", "a\tb", "a\x7f"}) {
    f.config.run.name = name;
    f.refused_with({"run.name", "without /"});
  }
  f.refused_with({"in one line"});
  // A run that has such a name goes on.
  const auto resumed = preflight(f.config, f.run(), run_beginning::resuming);
  CHECK((resumed || !contains(resumed.error().message, "run.name")));
  f.config.run.name = "run";
  const auto refused_folder = [&](const fs::path& folder, std::string_view why) {
    const auto checked = preflight(f.config, folder, f.beginning);
    REQUIRE_FALSE(checked.has_value());
    CAPTURE(checked.error().message);
    CHECK(checked.error().message.find("run.folder") != std::string::npos);
    CHECK(checked.error().message.find(why) != std::string::npos);
  };
  refused_folder("/proc/run", "cannot be written");
  refused_folder(f.folder.path() / std::string(300, 'x'), "300 characters");
}

TEST_CASE("a schedule that falls needs steps to fall in") {
  fixture f;
  f.config.learner.schedule = "cosine";
  f.config.learner.steps = 30;
  f.config.learner.warmup_steps = 30;
  for (const char* stage : {"sft", "contrastive"}) {
    f.config.stage = stage;
    f.refused_with({"learner.steps is 30", "learner.warmup_steps = 30", "constant"});
  }
}

TEST_CASE("a fresh model that cannot be is refused before its corpus is made") {
  fixture f;
  f.config.stage = "sft";
  f.config.policy.head_width = 33;
  f.refused_with({"policy.head_width", "33"});
  f.config.policy.head_width = 32;
  f.config.policy.layers = 1000;
  f.config.policy.width = 65536;
  f.refused_with({"parameters", "this machine has", "policy.layers"});
}

TEST_CASE("families are held out as a whole; one that is none is refused with those that are") {
  fixture f;
  f.config.tasks.held_out_families = "softmax, nonsense";
  f.refused_with({"'nonsense' is no family", "softmax", "elementwise"});
  std::string every;
  for (const std::string_view family : env::all_families())
    every += std::string(family) + ",";
  for (const char* stage : {"contrastive", "sft"}) {
    f.config.stage = stage;
    f.config.tasks.held_out_families = "nonsense";
    f.refused_with({"'nonsense' is no family"});
    f.config.tasks.held_out_families = every;
    f.refused_with({"is every family", "leave one"});
  }
  f.config.stage = "contrastive";
  f.config.tasks.held_out_families = "softmax, elementwise, softmax";
  f.config.tasks.count = 12;
  f.config.tasks.held_out_count = 6;
  f.config.tasks.held_out_share = 0;
  const auto book = preflight(f.config, f.run(), f.beginning);
  REQUIRE_MESSAGE(book, (book ? "" : book.error().message));
  int trained = 0;
  for (const book_task& task : book->tasks()) {
    const std::string family = env::family_of(task.composition);
    CAPTURE(family);
    CHECK(task.held_out == (family == "softmax" || family == "elementwise"));
    trained += task.held_out ? 0 : 1;
  }
  CHECK(trained == 12);
  CHECK(book->tasks().size() == 18);
}

TEST_CASE("lane cuda without a GPU is refused, unless what is missing may be told") {
  if (!programs_are_there()) return;
  if (fs::exists("/dev/nvidiactl")) return test::skip("there is a GPU");
  fixture f;
  f.config.env.lane = "cuda";
  f.config.policy.max_prompt_tokens = 1200;
  f.config.policy.max_new_tokens = 120;
  f.refused_with({"env.lane is cuda", "env.device_class"});
  missing_hardware missing;
  const auto tasks = preflight(f.config, f.run(), f.beginning, &missing);
  REQUIRE_MESSAGE(tasks, (tasks ? "" : tasks.error().message));
  REQUIRE(missing.size() == 1);
  for (const auto& task : tasks->tasks()) {
    CHECK(task.task->lane == &env::cuda_lane);
    CHECK(env::tensors_of(*task.task).plain.find("__global__") != std::string::npos);
  }
  f.config.env.gpus = "0,x";
  f.refused_with({"env.gpus is '0,x'"});
  f.config.env.gpus = "0";
  f.config.actors.generator_device = "cuda";
  f.refused_with({"actors.generator_device is cuda"});
}

TEST_CASE("a link for weights needs a GPU at each end") {
  fixture f;
  f.config.actors.weights = "link";
  f.config.learner.device = f.config.actors.generator_device = "cuda";
  f.refused_with({"actors.weights is link", "actors.generator_gpu is 0", "learner's rank 0, too"});
  f.config.actors.generator_device = "cpu";
  f.refused_with({"actors.weights is link", "a link joins two GPUs"});
  if (!programs_are_there()) return;
  f.config.learner.device = "cpu";
  CHECK(preflight(f.config, f.run(), f.beginning));
}

TEST_CASE("a later stage of a chain is checked without the policy that it will have") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.policy.model = (f.folder.path() / "not_yet").string();
  f.refused_with({"policy.model"});
  f.beginning = run_beginning::later;
  CHECK(preflight(f.config, f.run(), f.beginning));
  f.config.policy.model = "";
  CHECK(preflight(f.config, f.run(), f.beginning));
  // Its shape may be known, and with it what it will take.
  run_config before = f.config;
  before.stage = "sft";
  policy::model_config shape = policy_shape(before).value();
  CHECK(preflight(f.config, f.run(), f.beginning, nullptr, &shape));
  shape.layers = 200;
  shape.hidden_size = 1 << 14;
  shape.intermediate_size = 1 << 16;
  const auto large = preflight(f.config, f.run(), f.beginning, nullptr, &shape);
  REQUIRE_FALSE(large.has_value());
  CAPTURE(large.error().message);
  CHECK(large.error().code == base::errc::invalid_argument);
  CHECK(test::contains(large.error().message, "a smaller policy.model"));
  f.config.policy.template_name = "contrastive_demos";
  f.refused_with({"policy.template_name"});
}

namespace {

std::string recorded_line(const std::string& key, const std::string& whose,
                          const std::string& completion) {
  return base::dump(base::json{{key, whose}, {"completion", completion}}) + "\n";
}

}  // namespace

TEST_CASE("recorded completions: file, lines, tasks and lengths are checked before the run") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.policy.engine = "recorded";
  const fs::path file = f.folder.path() / "played.jsonl";
  f.config.policy.recorded = file.string();
  const std::string key = "policy.recorded is '" + file.string() + "': ";
  f.refused_with({key, "is not there"});
  const auto write = [&](const std::string& text) { REQUIRE(base::write_file_atomic(file, text)); };
  write("\n");
  f.refused_with({key, "no completion in it"});
  run_config own = f.config;
  const auto tasks = task_book::make(own).value();
  std::string all;
  for (const book_task& task : tasks.tasks())
    if (!task.held_out) all += recorded_line("task", task.id, "int x;");
  write(all);
  CHECK(preflight(f.config, f.run(), f.beginning));
  write(all + "{\n");
  f.refused_with({key, "line 4: not JSON"});
  const std::string missing = tasks.tasks()[0].held_out ? tasks.tasks()[1].id : tasks.tasks()[0].id;
  const std::string others = all.substr(all.find('\n') + 1);
  write(others);
  f.refused_with({key, "1 of the run's 3 tasks have no completion, the first is " + missing});
  f.beginning = run_beginning::later;
  f.refused_with({key, "1 of the run's 3 tasks", missing});
  f.beginning = run_beginning::fresh;

  // A token each, and the end: policy.max_new_tokens is inclusive.
  f.config.policy.max_new_tokens = 8;
  const policy::tokenizer text =
      policy::tokenizer::load(test::source_dir() / "policy/demo").value();
  std::string seven = "{";
  while (text.encode(seven).size() < 7)
    seven += "\x01";
  REQUIRE(text.encode(seven).size() == 7);
  write(all + recorded_line("task", missing, seven));
  CHECK(preflight(f.config, f.run(), f.beginning));
  f.config.policy.max_new_tokens = 7;
  f.refused_with({key, "line 4: the completion has 8 tokens, policy.max_new_tokens is 7: raise"});
  // Of another task: it is not played.
  write(all + recorded_line("task", "of_another_run", seven));
  CHECK(preflight(f.config, f.run(), f.beginning));
}

TEST_CASE("recorded completions by prompt alone do where prompts are known before") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.policy.engine = "recorded";
  f.config.replay.exemplars = "none";
  f.config.policy.recorded = (f.folder.path() / "played.jsonl").string();
  const auto tasks = task_book::make(f.config).value();
  const auto prompts = prompter::make(f.config, device_class_of(f.config).value()).value();
  std::string all;
  for (const book_task& task : tasks.tasks()) {
    if (task.held_out) continue;
    all += recorded_line("prompt", base::to_hex(base::xxh128(prompts.render(task, {}).text)), "x");
  }
  REQUIRE(base::write_file_atomic(f.config.policy.recorded, all));
  CHECK(preflight(f.config, f.run(), f.beginning));
  f.beginning = run_beginning::later;
  CHECK(preflight(f.config, f.run(), f.beginning));
  f.config.replay.exemplars = "bucket";
  f.refused_with({"3 of the run's 3 tasks", "alone does where replay.exemplars is none"});
  f.beginning = run_beginning::fresh;
  f.refused_with({"3 of the run's 3 tasks", "alone does where replay.exemplars is none"});
  f.config.replay.without_exemplars_share = 1;
  CHECK(preflight(f.config, f.run(), f.beginning));
}

TEST_CASE("stage sft learns on this machine, with as many ranks as are asked for") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.stage = "sft";
  f.config.learner.ranks = 2;
  f.refused_with({"learner.ranks is 2 and learner.device is auto", "say cuda or cpu"});
  f.config.learner.device = "cpu";
  CHECK(preflight(f.config, f.run(), f.beginning));
  f.config.learner.hosts = "127.0.0.2,127.0.0.3";
  f.refused_with({"learner.hosts is '127.0.0.2,127.0.0.3'", "stage sft learns on this machine"});
  // A model that this machine can keep, and its ranks beside it cannot train.
  f.config.learner.hosts = "";
  f.config.learner.device = "cpu";
  f.config.learner.batch_samples = 1 << 20;
  f.config.learner.micro_batch_tokens = std::int64_t{1} << 31;
  f.refused_with({"learner.micro_batch_tokens"});
}

TEST_CASE("hosts: what this machine can know of them, and what it need not have for them") {
  if (!programs_are_there()) return;
  fixture f;
  f.config.cluster.address = "127.0.0.1";
  f.config.cluster.launch = "env {host}";
  f.config.learner.ranks = 2;
  f.config.learner.hosts = "127.0.0.2,127.0.0.3";
  f.config.actors.generator_host = "127.0.0.1";
  CHECK(preflight(f.config, f.run(), f.beginning));
  const std::string told = describe_hosts(f.config);
  CAPTURE(told);
  for (const char* line : {"control       here, 127.0.0.1", "rank 0        127.0.0.2",
                           "rank 1        127.0.0.3", "generator     here", "evaluator 0   here"})
    CHECK(test::contains(told, line));
  CHECK(describe_hosts({}).empty());
  f.config.cluster.launch = "no-such-launcher {host}";
  f.refused_with({"cluster.launch begins with 'no-such-launcher'"});
  missing_hardware missing;
  CHECK(preflight(f.config, f.run(), f.beginning, &missing));
  REQUIRE(missing.size() == 1);
  CHECK(test::contains(missing.front(), "no-such-launcher"));
  f.config.cluster.launch = "env {host}";
  f.config.actors.weights = "memory";
  f.refused_with({"actors.weights is memory", "rank 0 is on 127.0.0.2 and the generator here"});
  f.config.actors.weights = "auto";
  // On one other host, where a link is impossible and control's memory is not.
  f.config.actors.generator_host = "127.0.0.2";
  f.config.learner.device = "cuda";
  f.refused_with({"actors.generator_device is cpu", "generator on 127.0.0.2", "both to cuda"});
  f.config.actors.generator_device = "cuda";
  f.refused_with({"generator on 127.0.0.2", "both with GPU 0", "actors.generator_gpu"});
  f.config.learner.device = f.config.actors.generator_device = "cpu";
  CHECK(preflight(f.config, f.run(), f.beginning));
  f.config.cluster.address = "0.0.0.0";
  f.refused_with({"0.0.0.0", "every address"});
  f.config.cluster.address = "127.0.0.1";
  f.config.learner.hosts = "127.0.0.2,localhost";
  f.refused_with({"127.0.0.1 and localhost are one host (127.0.0.1)"});
  f.config.learner.hosts = "127.0.0.2,::1";
  f.refused_with({"host ::1 is ::1", "of one kind"});
  // Addresses for documentation: no machine has them.
  f.config.cluster.address = "192.0.2.1";
  f.config.learner.hosts = "192.0.2.2,192.0.2.3";
  f.config.actors.generator_host = "192.0.2.4";
  f.refused_with({"cluster.address is '192.0.2.1'", "cannot listen", "of its own"});
  f.config.learner.hosts = "127.0.0.2,192.0.2.3";
  f.refused_with({"127.0.0.2", "no other host reaches it"});
}

TEST_CASE("a GPU is needed where the role is, not where control is") {
  if (!programs_are_there()) return;
  if (fs::exists("/dev/nvidiactl")) return test::skip("there is a GPU");
  fixture f;
  f.config.cluster.launch = "env {host}";
  f.config.cluster.address = "127.0.0.1";
  f.config.learner.ranks = 2;
  f.config.learner.hosts = "127.0.0.2,127.0.0.3";
  f.config.actors.generator_host = "127.0.0.4";
  f.config.learner.device = f.config.actors.generator_device = "cuda";
  CHECK(preflight(f.config, f.run(), f.beginning));
  CHECK(test::contains(describe_hosts(f.config), "rank 1        127.0.0.3, GPU 0"));
  f.config.learner.hosts = "127.0.0.2,127.0.0.1";
  f.refused_with({"learner.device is cuda", "/dev/nvidiactl"});
  f.config.learner.hosts = "127.0.0.2,127.0.0.3";
  f.config.actors.generator_host = "";
  f.refused_with({"actors.generator_device is cuda", "/dev/nvidiactl"});
}
