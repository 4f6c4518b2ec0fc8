// Models of the sizes that are trained: from a GPU to Hugging Face folders of several shards and
// back, bit by bit.
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "base/file.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/gpu_device.hpp"
#include "support/test.hpp"
#include "tools/model_shapes.hpp"

using namespace quern;
using namespace quern::policy;

namespace {

std::size_t shards_in(const std::filesystem::path& folder) {
  std::size_t count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    count += file.path().extension() == ".safetensors" ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("Qwen2.5's shapes with random weights go to folders of several shards and come back") {
  if (!test::go_on_with_cuda()) return;
  for (const char* size : {"0.5B", "1.5B", "7B"}) {
    CAPTURE(size);
    const auto folder = base::temp_folder::make().value();
    const model_config config = tools::qwen_shape(size).value();
    base::hash128 hash;
    {
      parameter_arena arena =
          parameter_arena::zeros(config, at::kBFloat16, test::cuda_device()).value();
      const auto bytes = arena.flat.nbytes();
      const auto room = std::filesystem::space(folder.path()).available;
      if (room < bytes + bytes / 4) {
        test::skip(fmt::format("{}: {} GB of files, {} GB free in {}", size, bytes / 1'000'000'000,
                               room / 1'000'000'000, folder.path().string()));
        continue;
      }
      arena.fill_with_noise(0.02);
      hash = arena.hash();
      const auto saved = save_model(arena, folder.path(), {}, {}, bytes / 3);
      REQUIRE_MESSAGE(saved, (saved ? "" : saved.error().message));
    }
    CHECK(shards_in(folder.path()) >= 3);
    const auto loaded = parameter_arena::load(folder.path(), at::kBFloat16, test::cuda_device());
    REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message));
    CHECK(loaded->config == config);
    CHECK(loaded->hash() == hash);
  }
}
