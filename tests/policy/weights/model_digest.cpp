// A model's folder is known again by what Quern reads of it.
#include "policy/weights/model_digest.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "policy/weights/safetensors.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
namespace fs = std::filesystem;

namespace {

base::hash128 digest_of(const fs::path& file, const digest_extent& extent = {}) {
  const auto digest = digest_file(file, extent);
  REQUIRE(digest);
  return *digest;
}

std::string changed_at(std::string text, std::size_t place) {
  text[place] = static_cast<char>(text[place] ^ 1);
  return text;
}

std::vector<std::string> names_of(const std::vector<model_file>& files) {
  std::vector<std::string> names;
  for (const model_file& file : files)
    names.push_back(file.name);
  return names;
}

}  // namespace

TEST_CASE("a small file counts whole, a large one by its size, its begin and blocks to its end") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path file = folder->path() / "f";
  const std::string text(1000, 'x');
  const auto write = [&](std::string_view content) {
    REQUIRE(base::write_file_atomic(file, content));
  };
  // Blocks of ten bytes begin at 0, 330, 660 and 990.
  const digest_extent large{.whole = 999, .first = 20, .block = 10, .blocks = 4};
  const digest_extent small{.whole = 1000, .first = 20, .block = 10, .blocks = 4};
  write(text);
  const base::hash128 sampled = digest_of(file, large), whole = digest_of(file, small);
  CHECK(digest_of(file, large) == sampled);
  for (const std::size_t place : {0, 19, 330, 339, 660, 669, 990, 999}) {
    CAPTURE(place);
    write(changed_at(text, place));
    CHECK(digest_of(file, large) != sampled);
    CHECK(digest_of(file, small) != whole);
  }
  // What the contract leaves out: between two blocks of a file that is too large to be read whole.
  write(changed_at(text, 500));
  CHECK(digest_of(file, large) == sampled);
  CHECK(digest_of(file, small) != whole);
  write(text + "x");
  CHECK(digest_of(file, large) != sampled);
  write("");
  CHECK(digest_of(file, large) == digest_of(file, small));
}

TEST_CASE("the files of a model that Quern reads count, others do not, wherever the folder lies") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path first = folder->path() / "first", second = folder->path() / "second";
  fs::copy(test::source_dir() / "policy/demo", first);
  fs::copy(first, second);
  REQUIRE(base::write_file_atomic(second / "README.md", "another card"));
  const auto files = digest_model(first), same = digest_model(second);
  REQUIRE(files);
  REQUIRE(same);
  CHECK(*files == *same);
  CHECK(names_of(*files) == std::vector<std::string>{"config.json", "generation_config.json",
                                                     "model.safetensors", "tokenizer.json",
                                                     "tokenizer_config.json"});
  for (const model_file& file : *files) {
    CAPTURE(file.name);
    CHECK(file.size == fs::file_size(first / file.name));
    const std::string text = base::read_file(second / file.name).value();
    REQUIRE(base::write_file_atomic(second / file.name, changed_at(text, text.size() / 2)));
    const auto other = digest_model(second);
    REQUIRE(other);
    CHECK(*other != *files);
    REQUIRE(base::write_file_atomic(second / file.name, text));
  }
  fs::remove(second / "model.safetensors");
  CHECK_FALSE(digest_model(second));
}

TEST_CASE("of a sharded model the index and each shard that it lists count") {
  const fs::path sharded = test::source_dir() / "tests/golden/policy/models/llama3_sharded";
  const auto files = digest_model(sharded);
  REQUIRE(files);
  const auto weights = weight_files(sharded);
  REQUIRE(weights);
  CHECK(weights->size() > 2);
  CHECK(test::contains(weights->front(), "-of-"));
  CHECK(weights->back() == "model.safetensors.index.json");
  const auto names = names_of(*files);
  for (const std::string& name : *weights)
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
}
