// Ranks on GPUs over NCCL: the same results as one GPU, named failures, weights from GPU to GPU.
// Skipped where there are fewer than two.
#include "policy/engine/rank_processes.hpp"

using namespace quern;
using namespace quern::test;

namespace {

int gpus_here() {
  int count = 0;
  std::error_code ignored;
  for (auto at = fs::directory_iterator("/proc/driver/nvidia/gpus", ignored);
       at != fs::directory_iterator(); at.increment(ignored))
    ++count;
  return count;
}

bool skipped() {
  if (gpus_here() >= 2) return false;
  skip(fmt::format("{} GPUs here, ranks over NCCL need two", gpus_here()));
  return true;
}

/// Everything that was said, for whoever reads this from afar.
void tell(const rank_processes& group) {
  for (std::size_t i = 0; i < group.size(); ++i)
    fmt::print("--- rank {}:\n{}", i, group.said_by(static_cast<int>(i)));
}

}  // namespace

TEST_CASE("over NCCL: loss, gradients and weights are those of one GPU, and of the CPU") {
  if (skipped()) return;
  const auto folder = base::temp_folder::make().value();
  const outcome cpu = train(folder.path() / "cpu", 1),
                one = train(folder.path() / "one", 1, {"cuda"});
  CHECK(difference(cpu.gradients, one.gradients) < 1e-9);
  for (const int ranks : {2, 4}) {
    if (ranks > gpus_here()) continue;
    CAPTURE(ranks);
    const outcome several = train(folder.path() / std::to_string(ranks), ranks, {"cuda"}),
                  again = train(folder.path() / fmt::format("again{}", ranks), ranks, {"cuda"});
    const double gradients = difference(one.gradients, several.gradients),
                 weights = difference(one.weights, several.weights);
    fmt::print("{} ranks: gradients differ by {:.1e}, weights by {:.1e}; run to run: {}\n", ranks,
               gradients, weights,
               several.weights == again.weights ? "equal bits" : "different bits");
    CHECK(gradients < 1e-10);
    CHECK(weights < 1e-10);
    CHECK(metric(several, 2, "loss") == doctest::Approx(metric(one, 2, "loss")).epsilon(1e-10));
  }
}

TEST_CASE("over NCCL: bfloat16 learners of several GPUs are those of one but for rounding") {
  if (skipped()) return;
  const auto folder = base::temp_folder::make().value();
  const outcome cpu = train(folder.path() / "cpu", 1, {"half"}),
                one = train(folder.path() / "one", 1, {"cuda", "half"});
  constexpr double rounding = 5e-2;
  CHECK(difference(direction(cpu.gradients), direction(one.gradients)) < rounding);
  CHECK(metric(cpu, 0, "grad_norm") == doctest::Approx(metric(one, 0, "grad_norm")).epsilon(0.03));
  for (const int ranks : {2, 4}) {
    if (ranks > gpus_here()) continue;
    CAPTURE(ranks);
    const outcome several = train(folder.path() / std::to_string(ranks), ranks, {"cuda", "half"});
    const double gradients = difference(one.gradients, several.gradients),
                 weights = difference(one.weights, several.weights);
    fmt::print("{} GPUs in bfloat16: gradients off by {:.1e}, weights by {:.1e}\n", ranks,
               gradients, weights);
    CHECK(gradients < rounding);
    CHECK(weights < rounding);
    CHECK(metric(several, 2, "loss") == doctest::Approx(metric(one, 2, "loss")).epsilon(0.03));
    CHECK(metric(several, 0, "grad_norm") ==
          doctest::Approx(metric(one, 0, "grad_norm")).epsilon(0.03));
  }
  const outcome wrong = train(folder.path() / "drop", 2, {"cuda", "half", "drop"});
  CHECK(difference(one.gradients, wrong.gradients) > 2 * rounding);
}

TEST_CASE("over NCCL: the control, a bucket left out") {
  if (skipped()) return;
  const auto folder = base::temp_folder::make().value();
  const outcome one = train(folder.path() / "one", 1, {"cuda"}),
                wrong = train(folder.path() / "two", 2, {"cuda", "drop"});
  CHECK(difference(one.gradients, wrong.gradients) > 1e-3);
}

TEST_CASE("over NCCL: a rank that is killed, frozen or late is named by the others") {
  if (skipped()) return;
  const auto folder = base::temp_folder::make().value();
  const int ranks = std::min(gpus_here(), 4);
  check_failure(folder.path() / "kill", ranks, {"cuda"}, 1, "is gone",
                [](rank_processes& group) { group.rank(1).send_signal(SIGKILL); });
  check_failure(folder.path() / "first", ranks, {"cuda"}, 0, "is gone",
                [](rank_processes& group) { group.rank(0).send_signal(SIGKILL); });
  check_failure(folder.path() / "stop", ranks, {"cuda"}, 1, "gives no sign of life",
                [](rank_processes& group) { group.rank(1).send_signal(SIGSTOP); });
  check_failure(folder.path() / "hang", ranks, {"cuda", "hang"}, 1, "has not moved",
                [](rank_processes&) {});
}

TEST_CASE("over NCCL: weights of 1.5 billion parameters from GPU to GPU") {
  if (skipped()) return;
  const auto folder = base::temp_folder::make().value();
  rank_processes group("link", 2, folder.path() / "link", {"cuda"});
  group.finish();
  tell(group);
  CHECK(contains(group.said_by(1), "weights are right"));
}
