// One rank of a group as a process of its own: quern_rank_deed DEED RANK RANKS FOLDER [WORD...].
// What it does is deterministic; rank 0 leaves what came of it in FOLDER. Exit code 0: done; 3: the
// group failed, as the last line on stderr says; 2: anything else.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/file.hpp"
#include "policy/collectives/communicator.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/sharded_checkpoint.hpp"
#include "policy/engine/share.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/engine/threads.hpp"
#include "policy/engine/trainer.hpp"
#include "policy/engine/weight_link.hpp"

namespace {

using namespace quern;
using namespace quern::policy;
namespace fs = std::filesystem;

constexpr int group_failed = 3;

struct order {
  std::string deed;
  std::int32_t rank = 0, ranks = 1;
  fs::path folder;
  std::vector<std::string> words;
  [[nodiscard]] bool says(std::string_view word) const {
    return std::find(words.begin(), words.end(), word) != words.end();
  }
};

[[noreturn]] void fail_with(int code, const base::error& problem) {
  fmt::print(stderr, "{}\n", problem.message);
  std::fflush(stderr);
  ::_exit(code);
}

template <class Value>
auto must(base::expected<Value> value) {
  if (!value)
    fail_with(value.error().code == base::errc::unavailable ? group_failed : 2, value.error());
  if constexpr (!std::is_void_v<Value>) return std::move(*value);
}

/// Leaves the gradients of one bucket of one rank out of the sum: the control of the tests.
class dropping_backend final : public collective_backend {
 public:
  explicit dropping_backend(std::unique_ptr<collective_backend> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] at::Device device() const override { return inner_->device(); }
  started all_reduce(at::Tensor& data, reduction how) override {
    return inner_->all_reduce(data, how);
  }
  started reduce_scatter(at::Tensor& out, at::Tensor& in) override {
    if (++reductions_ == 2) in.zero_();
    return inner_->reduce_scatter(out, in);
  }
  started all_gather(at::Tensor& out, at::Tensor& in) override {
    return inner_->all_gather(out, in);
  }
  started broadcast(at::Tensor& data, std::int32_t root) override {
    return inner_->broadcast(data, root);
  }
  void abort() noexcept override { inner_->abort(); }

 private:
  std::unique_ptr<collective_backend> inner_;
  int reductions_ = 0;
};

std::vector<training_sequence> batch_of(int step, bool few) {
  std::vector<training_sequence> batch;
  for (std::uint32_t i = 0; i < (few ? 3 : 9); ++i) {
    training_sequence s;
    const auto seed = static_cast<std::uint32_t>(step) * 100 + i;
    s.tokens = quern::test::some_tokens(4 + 9 * (i / 3), seed / 3);
    const std::size_t prompt = s.tokens.size();
    const auto completion = quern::test::some_tokens(3 + 4 * i, 90 + seed);
    s.tokens.insert(s.tokens.end(), completion.begin(), completion.end());
    s.loss_mask.assign(s.tokens.size(), 1);
    std::fill_n(s.loss_mask.begin(), prompt, std::uint8_t{0});
    s.advantage = i == 4 ? 0 : i % 2 == 0 ? 0.8 + 0.1 * i : -0.5 - 0.1 * i;
    s.behaviour_log_probs.assign(s.tokens.size(), -4.1F);
    batch.push_back(std::move(s));
  }
  return batch;
}

struct rank_process {
  explicit rank_process(const order& what) : asked(what) {
    set_threads(1);
    const at::Device device = must(choose_device(asked.says("cuda") ? "cuda" : "cpu"));
    watch_limits limits;
    limits.silence = 5'000'000'000;
    limits.stall = 8'000'000'000;
    limits.arrival = 60'000'000'000;
    if (asked.says("absent")) limits.connect = 1'500'000'000;
    if (asked.ranks > 1) {
      link = must(rendezvous::join(
          {"unix:" + (asked.folder / "rendezvous").string(), asked.rank, asked.ranks, limits}));
      // Alive, but it never begins to connect.
      while (asked.says("absent") && asked.rank == 1)
        ::usleep(100'000);
      auto transport = device.is_cuda() ? must(make_nccl(link, "test", device))
                                        : must(make_gloo(link, "test", "127.0.0.1"));
      if (asked.says("drop") && asked.rank == 1)
        transport = std::make_unique<dropping_backend>(std::move(transport));
      group.emplace(link, std::move(transport));
    }
    layout place;
    place.ranks = asked.ranks;
    const auto type = asked.says("half")    ? at::kBFloat16
                      : asked.says("float") ? at::kFloat
                                            : at::kDouble;
    const auto config = quern::test::small_config(
        asked.says("tied") ? architecture::qwen2 : architecture::qwen3, asked.says("tied"));
    trainer_options options;
    options.loss = preset_defaults(preset::group_normalised);
    options.optimizer.learning_rate = 0.01;
    options.optimizer.weight_decay = 0.1;
    options.optimizer.max_grad_norm = 0.05;
    options.pack.max_rows = 60;
    options.workers = asked.says("threads") ? 2 : 1;
    if (asked.says("recompute")) options.recompute = recompute_mode::full;
    parallel_context context;
    context.dp = asked.ranks;
    context.dp_rank = asked.rank;
    learner.emplace(
        must(trainer::make(must(parameter_arena::random(config, 8, type, device, place)), options,
                           context, group ? &*group : nullptr)));
  }

  step_metrics step(int number) {
    const auto batch = batch_of(number, asked.says("few"));
    std::vector<training_sequence> share;
    for (const std::size_t index : share_of(batch, asked.rank, asked.ranks))
      share.push_back(batch[index]);
    return must(learner->step(share, count(batch)));
  }

  /// All values of an arena by parameter, as doubles.
  void dump(const parameter_arena& arena, const std::string& name) const {
    if (asked.rank != 0) return;
    std::ofstream out(asked.folder / name, std::ios::binary);
    for (const parameter& p : arena.layout.parameters) {
      const at::Tensor values = arena.flat.narrow(0, p.offset, p.count()).to(at::kCPU, at::kDouble);
      out.write(reinterpret_cast<const char*>(values.const_data_ptr<double>()),
                static_cast<std::streamsize>(values.nbytes()));
    }
  }

  order asked;
  std::shared_ptr<rendezvous> link;
  std::optional<communicator> group;
  std::optional<trainer> learner;
};

/// What one rank says all learn, and no more than that.
base::status agree(communicator& group) {
  QUERN_TRY(const bool last, group.any(group.rank() + 1 == group.ranks(), "a word of the last"));
  QUERN_TRY(const bool nobody, group.any(false, "no word"));
  QUERN_CHECK(group.barrier("the end"));
  if (last && !nobody) return {};
  return base::fail(base::errc::internal, "one said yes: {}, nobody did: {}", last, nobody);
}

/// Gradients of the first step, loss and norm of three, weights after them.
void train(const order& what) {
  rank_process self(what);
  base::json told = base::json::array();
  for (int step = 1; step <= 3; ++step) {
    told.push_back(to_json(self.step(step)));
    if (step > 1) continue;
    must(self.learner->gather_gradients());
    self.dump(self.learner->gradient_arena(), "gradients");
  }
  self.dump(self.learner->weights(), "weights");
  if (self.group) must(agree(*self.group));
  if (what.rank == 0) must(base::write_file_atomic(what.folder / "metrics", base::dump(told)));
}

/// Takes a step, or loads the checkpoint FROM, and writes one.
void save(const order& what) {
  rank_process self(what);
  if (what.says("load")) {
    must(load_shards(self.learner->optimizer(), what.folder / "from"));
    must(self.learner->gather_weights());
  } else {
    self.step(1);
    self.step(2);
  }
  self.dump(self.learner->weights(), "weights");
  base::status result;
  {
    checkpoint_writer writer(self.link.get());
    writer.write(snapshot(self.learner->optimizer()), what.folder / "to", {},
                 [&](base::status end) { result = std::move(end); });
  }
  must(std::move(result));
}

/// Weights of 1.5 billion parameters in two bytes each, from rank 0 to rank 1: how fast.
void link_weights(const order& what) {
  const at::Device device = must(choose_device(what.says("cuda") ? "cuda" : "cpu"));
  auto link = must(weight_link::open(
      {"unix:" + (what.folder / "rendezvous").string(), what.rank, what.ranks, {}}, device));
  const std::int64_t count = what.says("cuda") ? 1'544'000'000 : 1'000'000;
  at::Tensor arena = at::full({count}, what.rank == 0 ? 3.0 : 0.0,
                              at::TensorOptions().dtype(at::kBFloat16).device(device));
  transfer_plan plan;
  plan.copies = {{0, 0, count}};
  const base::steady_clock clock;
  for (int round = 0; round < 4; ++round) {
    if (round == 0) must(link->warm_up(0));
    const base::nanoseconds_t begin = clock.now_ns();
    must(what.rank == 0 ? link->send(plan, arena, round) : link->receive(plan, arena, round));
    const double seconds = static_cast<double>(clock.now_ns() - begin) / 1e9;
    fmt::print("rank {} round {}: {:.1f} MB in {:.2f} ms, {:.1f} GB/s\n", what.rank, round,
               static_cast<double>(arena.nbytes()) / 1e6, seconds * 1e3,
               static_cast<double>(arena.nbytes()) / 1e9 / seconds);
  }
  const bool right = arena.eq(3.0).all().item<bool>();
  fmt::print("rank {}: weights are {}\n", what.rank, right ? "right" : "WRONG");
  if (!right) ::_exit(2);
}

/// Steps for ever; the line after each tells the test where it is.
void run_on(const order& what) {
  rank_process self(what);
  for (int step = 1;; ++step) {
    self.step(step);
    if (what.rank == 0) must(base::write_file_atomic(what.folder / "step", std::to_string(step)));
    // Alive, and for ever busy with something else, which has a limit where it says so.
    if (what.says("saving") && what.rank == 1 && step == 2)
      self.link->busy("saving", 1'000'000'000);
    while (what.says("hang") && what.rank == 1 && step == 2)
      ::usleep(100'000);
  }
}

/// Steps and checkpoints for ever, each in a folder of its own.
void checkpoint_on(const order& what) {
  rank_process self(what);
  checkpoint_writer writer(self.link.get());
  for (int step = 1;; ++step) {
    self.step(step);
    writer.write(snapshot(self.learner->optimizer()), what.folder / std::to_string(step), {},
                 [](base::status end) { must(std::move(end)); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  order what{argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argv[4], {argv + 5, argv + argc}};
  if (what.says("cuda")) load_cuda();
  if (what.deed == "link") link_weights(what);
  if (what.deed == "train") train(what);
  if (what.deed == "save") save(what);
  if (what.deed == "run") run_on(what);
  if (what.deed == "checkpoint") checkpoint_on(what);
  return 0;
}
