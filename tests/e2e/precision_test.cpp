// A learner in bfloat16 as a run: from float32 weights, and over a resume, with master weights that
// bfloat16 could not hold.
#include <algorithm>
#include <cstring>

#include "base/file.hpp"
#include "e2e/run_fixture.hpp"
#include "policy/weights/safetensors.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

std::vector<float> floats_of(const policy::tensor_view& tensor) {
  REQUIRE(tensor.dtype == policy::weight_dtype::f32);
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

/// All master weights of a checkpoint of one rank, by name.
std::map<std::string, std::vector<float>> masters_of(const fs::path& checkpoint) {
  const auto file =
      policy::safetensors_reader::open_file(checkpoint / "optimizer/shard-000-of-001.safetensors");
  REQUIRE(file);
  std::map<std::string, std::vector<float>> masters;
  for (const policy::tensor_view& tensor : file->tensors())
    if (tensor.name.starts_with("master.")) masters[tensor.name] = floats_of(tensor);
  return masters;
}

float through_bfloat16(float value) {
  return policy::bf16_to_float(policy::float_to_bf16(value));
}

}  // namespace

TEST_CASE("a bfloat16 learner takes float32 weights; a resume keeps masters that it cannot hold") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run";
  const finished trained =
      run_to_end(train_command(run, 1,
                               {"learner.precision=bfloat16", "observe.evaluation_set=false",
                                "env.protocol=cost_model/1"}),
                 folder->path() / "log");
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);
  check_law(run);
  const fs::path first = run / "checkpoints/v00000001";
  const auto masters = masters_of(first);
  const std::string embedding = "model.embed_tokens.weight";
  REQUIRE(masters.contains("master." + embedding));
  const std::vector<float>& exact = masters.at("master." + embedding);
  // What the model's file holds is what the learner computed with.
  const auto model = policy::safetensors_reader::open_dir(first / "model");
  REQUIRE(model);
  REQUIRE(model->find(embedding) != nullptr);
  const std::vector<float> rounded = floats_of(*model->find(embedding));
  REQUIRE(rounded.size() == exact.size());
  CHECK(std::equal(rounded.begin(), rounded.end(), exact.begin(),
                   [](float r, float x) { return r == through_bfloat16(x); }));
  const auto lost =
      std::count_if(exact.begin(), exact.end(), [](float x) { return x != through_bfloat16(x); });
  CHECK(static_cast<std::size_t>(lost) > exact.size() / 2);

  // A step that moves nothing leaves the masters as they were loaded.
  const finished resumed = run_to_end({program("quern"), "resume", run.string(), "--set",
                                       "learner.steps=2", "--set", "learner.learning_rate=0"},
                                      folder->path() / "resumed");
  CAPTURE(resumed.output);
  REQUIRE(resumed.code == 0);
  check_law(run);
  CHECK(version_of(run) == 2);
  const bool kept = masters_of(run / "checkpoints/v00000002") == masters;
  CHECK(kept);
}
