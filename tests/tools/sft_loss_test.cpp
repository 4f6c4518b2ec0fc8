// The project's learner beside plain PyTorch: the loss of every step, in float32 and in bfloat16,
// and a defect that has to be seen. Beside recorded losses everywhere, and beside PyTorch itself
// where it is installed.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "support/test.hpp"

using namespace quern;
using base::operator""_s;
namespace fs = std::filesystem;

namespace {

using losses = std::vector<double>;

constexpr int no_torch = 77;
constexpr std::size_t steps = 30;
/// tests/golden/policy/sft_loss.json was recorded with these, and --controls mask-shift --record.
const std::vector<std::string> how = {"--steps", std::to_string(steps), "--tokens", "128"};

struct ending {
  int code = -1;
  std::string said;
};

ending run(std::vector<std::string> argv, const fs::path& log) {
  argv.insert(argv.end(), how.begin(), how.end());
  auto child = base::subprocess::start({.argv = std::move(argv), .log = log});
  REQUIRE(child);
  const auto end = child->wait(240_s);
  REQUIRE(end);
  return {end->code, base::read_file(log).value_or("")};
}

losses losses_in(const fs::path& file) {
  const auto text = base::read_file(file);
  REQUIRE(text);
  losses found;
  for (const auto line : base::split(base::trim(*text), '\n')) {
    const auto step = base::parse_json(line);
    REQUIRE(step);
    found.push_back(step->at("loss").get<double>());
  }
  return found;
}

/// Of one loss to the other, at any step.
double largest_difference(const losses& ours, const losses& theirs) {
  REQUIRE(ours.size() == steps);
  REQUIRE(theirs.size() == steps);
  double largest = 0;
  for (std::size_t i = 0; i < steps; ++i)
    largest = std::max(largest, std::abs(ours[i] / theirs[i] - 1));
  return largest;
}

void check_agreement(const std::string& precision, const losses& ours, const losses& theirs) {
  CAPTURE(precision);
  // float32 differs by the order of additions, bfloat16 by where it rounds.
  CHECK(largest_difference(ours, theirs) < (precision == "float32" ? 2e-5 : 5e-3));
  CHECK(ours.back() < 0.85 * ours.front());
}

}  // namespace

TEST_CASE("fine-tuning has the losses recorded from PyTorch, and a shifted loss mask is seen") {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const auto text = base::read_file(test::source_dir() / "tests/golden/policy/sft_loss.json");
  REQUIRE(text);
  const auto recorded = base::parse_json(*text);
  REQUIRE(recorded);
  for (const std::string precision : {"float32", "bfloat16"}) {
    const fs::path out = folder->path() / precision;
    const ending end = run({(test::program_dir() / "bench_sft_loss").string(), "--out",
                            out.string(), "--precision", precision},
                           folder->path() / (precision + ".log"));
    CAPTURE(end.said);
    REQUIRE(end.code == 0);
    const losses ours = losses_in(out / "quern.jsonl");
    check_agreement(precision, ours, recorded->at(precision).get<losses>());
    CHECK(largest_difference(ours, recorded->at("mask-shift").get<losses>()) > 0.01);
  }
}

TEST_CASE("fine-tuning has the loss that it has in PyTorch") {
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path out = folder->path() / "out";
  const ending end = run({(test::source_dir() / "tools/sft_loss_against_pytorch").string(),
                          "--build", test::program_dir().parent_path().string(), "--out",
                          out.string(), "--controls", "mask-shift"},
                         folder->path() / "log");
  CAPTURE(end.said);
  if (end.code == no_torch)
    return test::skip("no Python that imports torch: run tools/setup.sh --python");
  // Every figure is met, and the control is seen.
  CHECK(end.code == 0);
  CHECK(test::contains(end.said, ", 0 missed"));
  for (const std::string precision : {"float32", "bfloat16"})
    check_agreement(precision, losses_in(out / precision / "quern.jsonl"),
                    losses_in(out / precision / "pytorch.jsonl"));
}
