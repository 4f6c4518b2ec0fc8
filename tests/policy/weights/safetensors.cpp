// The safetensors format: round trips, shards, and every way in which a file can lie.
#include "policy/weights/safetensors.hpp"

#include <cstring>
#include <fstream>
#include <numeric>

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern::policy;
namespace base = quern::base;

namespace {

std::string file_with(const std::string& header, std::size_t data_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i)
    out.push_back(static_cast<char>(header.size() >> (8 * i)));
  return out + header + std::string(data_bytes, '\x01');
}

std::string problem_of(const std::string& file) {
  const auto parsed = parse_safetensors(std::as_bytes(std::span(file)));
  return parsed ? "" : parsed.error().message;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct sample {
  std::vector<float> a{1, 2, 3, 4, 5, 6};
  std::vector<std::uint16_t> b{7, 8};
  std::vector<tensor_view> tensors{
      {"a", weight_dtype::f32, {2, 3}, std::as_bytes(std::span(a))},
      {"empty", weight_dtype::f32, {0, 4}, {}},
      {"b", weight_dtype::bf16, {2}, std::as_bytes(std::span(b))},
      {"scalar", weight_dtype::f16, {}, std::as_bytes(std::span(b)).first(2)}};
};

}  // namespace

TEST_CASE("what is written is read") {
  const sample s;
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const auto file = folder->path() / "x.safetensors";
  REQUIRE(write_safetensors(file, s.tensors, {{"format", "pt"}, {"note", "\"quoted\""}}));
  const auto reader = safetensors_reader::open_file(file);
  REQUIRE(reader);
  CHECK(reader->metadata() ==
        std::map<std::string, std::string>{{"format", "pt"}, {"note", "\"quoted\""}});
  REQUIRE(reader->tensors().size() == 4);
  for (const auto& tensor : s.tensors) {
    const auto* found = reader->find(tensor.name);
    REQUIRE(found != nullptr);
    CHECK(found->dtype == tensor.dtype);
    CHECK(found->shape == tensor.shape);
    CHECK(
        std::equal(found->data.begin(), found->data.end(), tensor.data.begin(), tensor.data.end()));
  }
  CHECK(reader->find("c") == nullptr);

  const auto again = folder->path() / "y.safetensors";
  REQUIRE(write_safetensors(again, s.tensors, {{"note", "\"quoted\""}, {"format", "pt"}}));
  CHECK(*base::read_file(file) == *base::read_file(again));
  // Nothing temporary stays behind.
  CHECK(std::distance(std::filesystem::directory_iterator(folder->path()), {}) == 2);
}

TEST_CASE("a directory is split into shards and found again") {
  const sample s;
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  REQUIRE(write_safetensors_dir(folder->path(), s.tensors, 24));
  CHECK(std::filesystem::exists(folder->path() / "model-00001-of-00002.safetensors"));
  const auto sharded = safetensors_reader::open_dir(folder->path());
  REQUIRE(sharded);
  CHECK(sharded->tensors().size() == 4);
  REQUIRE(sharded->find("b") != nullptr);

  SUBCASE("an index that disagrees is refused") {
    const auto index = folder->path() / "model.safetensors.index.json";
    auto text = *base::read_file(index);
    const auto replace = [&](const std::string& from, const std::string& to) {
      auto changed = text;
      const auto at = changed.find(from);
      REQUIRE(at != std::string::npos);
      changed.replace(at, from.size(), to);
      REQUIRE(base::write_file_atomic(index, changed));
      const auto opened = safetensors_reader::open_dir(folder->path());
      return opened ? std::string() : opened.error().message;
    };
    CHECK(mentions(replace("\"scalar\"", "\"scalar2\""), "does not say so"));
    CHECK(mentions(replace("\"weight_map\"", "\"map\""), "weight_map"));
    CHECK(mentions(replace("model-00002-of-00002", "../model-00002-of-00002"), "plain name"));
    CHECK(mentions(
        replace("\"scalar\":", "\"more\": \"model-00002-of-00002.safetensors\",\n\"scalar\":"),
        "lists"));
    CHECK(mentions(replace("model-00002-of-00002", "model-00003-of-00003"), "does not say so"));
  }
  SUBCASE("an unsharded save replaces it") {
    REQUIRE(write_safetensors_dir(folder->path(), std::span(s.tensors).first(1), 1000));
    const auto single = safetensors_reader::open_dir(folder->path());
    REQUIRE(single);
    CHECK(single->tensors().size() == 1);
  }
}

TEST_CASE("files that lie are refused with the reason") {
  const auto entry = [](const std::string& name, const std::string& shape, int begin, int end,
                        const std::string& dtype = "F32") {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype,
                       shape, begin, end);
  };
  CHECK(problem_of(file_with("{" + entry("a", "[2]", 0, 8) + "}", 8)).empty());
  CHECK(problem_of(file_with("{}", 0)).empty());
  CHECK(mentions(problem_of("1234567"), "too few"));
  CHECK(mentions(problem_of(std::string(8, '\xFF')), "limit"));
  CHECK(mentions(problem_of(file_with("{}", 0).replace(0, 1, 1, '\x09')), "the file has 2"));
  CHECK(mentions(problem_of(file_with("{", 0)), "not JSON"));
  CHECK(mentions(problem_of(file_with("[]", 0)), "not an object"));
  const std::string a = entry("a", "[2]", 0, 8);
  CHECK(mentions(problem_of(file_with("{" + a + "," + a + "}", 8)), "occurs twice"));
  CHECK(mentions(problem_of(file_with("{" + a + "," + entry("b", "[2]", 4, 12) + "}", 12)),
                 "overlaps"));
  CHECK(mentions(problem_of(file_with("{" + a + "," + entry("b", "[2]", 12, 20) + "}", 20)),
                 "leaves a hole"));
  CHECK(mentions(problem_of(file_with("{" + entry("b", "[2]", 4, 12) + "}", 12)), "hole"));
  CHECK(mentions(problem_of(file_with("{" + a + "}", 9)), "1 bytes after"));
  CHECK(mentions(problem_of(file_with("{" + a + "}", 7)), "do not lie"));
  CHECK(mentions(problem_of(file_with("{" + entry("a", "[3]", 0, 8) + "}", 8)), "needs 12"));
  CHECK(mentions(problem_of(file_with("{" + entry("a", "[-2]", 0, 8) + "}", 8)), "shape"));
  CHECK(mentions(problem_of(file_with("{" + entry("a", "[2.5]", 0, 8) + "}", 8)), "shape"));
  CHECK(mentions(problem_of(file_with("{" + entry("a", "[4294967296,4294967296]", 0, 8) + "}", 8)),
                 "overflows"));
  CHECK(mentions(problem_of(file_with("{" + entry("a", "[2]", 8, 0) + "}", 8)), "do not lie"));
  CHECK(mentions(problem_of(file_with("{" + entry("a", "[2]", 0, 8, "I64") + "}", 8)), "I64"));
  CHECK(mentions(problem_of(file_with(R"({"a":{"dtype":"F32","shape":[]}})", 0)), "data_offsets"));
  CHECK(mentions(problem_of(file_with(R"({"a":7})", 0)), "not an object"));
  CHECK(mentions(problem_of(file_with(R"({"__metadata__":{"a":1}})", 0)), "not text"));
  CHECK(
      mentions(problem_of(file_with(
                   R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"device":"cuda"}})", 4)),
               "unknown key 'device'"));
}

TEST_CASE("the writer refuses what it could not read back") {
  const sample s;
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  auto twice = s.tensors;
  twice.push_back(twice.front());
  CHECK_FALSE(write_safetensors(folder->path() / "x", twice));
  auto wrong = s.tensors;
  wrong[0].shape = {7};
  CHECK_FALSE(write_safetensors(folder->path() / "x", wrong));
  CHECK_FALSE(write_safetensors(folder->path() / "missing" / "x", s.tensors));
  CHECK(std::filesystem::is_empty(folder->path()));
}

TEST_CASE("a file that transformers wrote is read") {
  const auto dir = quern::test::source_dir() / "tests/golden/policy/models";
  const auto whole = safetensors_reader::open_dir(dir / "qwen3_bfloat16");
  REQUIRE(whole);
  const auto* norm = whole->find("model.norm.weight");
  REQUIRE(norm != nullptr);
  CHECK(norm->dtype == weight_dtype::bf16);
  CHECK(norm->shape == std::vector<std::int64_t>{32});
  const auto sharded = safetensors_reader::open_dir(dir / "llama3_sharded");
  REQUIRE(sharded);
  CHECK(sharded->find("model.embed_tokens.weight") != nullptr);
  CHECK(sharded->find("model.layers.1.mlp.down_proj.weight") != nullptr);
}
