// Directories that Quern writes, loaded by transformers: logits, greedy tokens and token ids must
// be the same.
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "policy/text/tokenizer_files.hpp"
#include "policy/weights/model_dir.hpp"
#include "support/test.hpp"
#include "support/transformers.hpp"

using namespace quern::policy;
namespace base = quern::base;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

const fs::path golden = quern::test::source_dir() / "tests/golden/policy";
constexpr const char* models[] = {"qwen2_old_keys", "qwen3_wide_heads", "qwen3_bfloat16",
                                  "llama3_old_keys", "llama3_sharded"};

/// The golden model through our own reader, arena and writer; with a tokenizer of ours beside it.
void write_again(const std::string& name, const fs::path& dir) {
  const fs::path from = golden / "models" / name;
  const auto config = load_model_config(from);
  REQUIRE(config);
  const auto layout = make_catalogue(*config, weight_dtype::f32);
  REQUIRE(layout);
  std::vector<std::byte> arena(layout->bytes());
  REQUIRE(load_weights(*safetensors_reader::open_dir(from), *layout, arena));
  REQUIRE(save_model_config(*config, dir));
  REQUIRE(save_weights(dir, *layout, arena, config->dtype, {}, 60'000));

  const auto text = base::read_file(golden / "tokenizers/trained/tokenizer.json");
  REQUIRE(text);
  REQUIRE(save_tokenizer(dir, *text, {"<|begin|>", "<|end|>", "<|pad|>"}));
  const auto tokens = tokenizer::load(dir);
  REQUIRE(tokens);

  auto expected = *base::parse_json(*base::read_file(from / "expected.json"));
  for (const char* sample :
       {"", "for (int i = 0; i < n; ++i) y[i] = x[i];", "a<|end|>\n\n  b", "\u00e9\u4f60 12"}) {
    expected["strings"].push_back(sample);
    expected["ids"].push_back(tokens->encode(sample, {true, true}));
  }
  REQUIRE(base::write_file_atomic(dir / "expected.json", base::dump(expected)));
  fs::copy_file(from / "expected.safetensors", dir / "expected.safetensors");
}

base::json inputs_of(const fs::path& dir) {
  return (*base::parse_json(*base::read_file(dir / "tokenizer_config.json")))["model_input_names"];
}

}  // namespace

TEST_CASE("a tokenizer's configuration asks for no input that no model takes") {
  const auto folder = base::temp_folder::make();
  const fs::path file = folder->path() / "tokenizer_config.json";
  CHECK(fit_tokenizer_config(folder->path()));
  CHECK_FALSE(fs::exists(file));
  const base::json two = {"input_ids", "attention_mask"};
  REQUIRE(base::write_file_atomic(file, R"({"z": 1.50, "a": {"3": "x"}})"));
  REQUIRE(fit_tokenizer_config(folder->path()));
  CHECK(inputs_of(folder->path()) == two);
  // What was there stays, in its order.
  const std::string kept = *base::read_file(file);
  CHECK(kept.find("\"z\": 1.5") < kept.find("\"a\""));
  REQUIRE(base::write_file_atomic(
      file, R"({"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]})"));
  REQUIRE(fit_tokenizer_config(folder->path()));
  CHECK(inputs_of(folder->path()) == two);
  // A file that is right is not written again.
  const std::string right = R"({"model_input_names":["attention_mask","input_ids"]})";
  REQUIRE(base::write_file_atomic(file, right));
  REQUIRE(fit_tokenizer_config(folder->path()));
  CHECK(*base::read_file(file) == right);
  REQUIRE(base::write_file_atomic(file, "[]"));
  CHECK_FALSE(fit_tokenizer_config(folder->path()));
}

TEST_CASE("transformers loads what Quern writes, and computes the same") {
  const fs::path root = quern::test::source_dir();
  const auto found = quern::test::python_with_transformers();
  if (!found) {
    quern::test::skip("no transformers here (tools/setup.sh --python installs it)");
    return;
  }
  const fs::path& python = *found;
  const auto folder = base::temp_folder::make();
  REQUIRE(folder);
  base::subprocess_spec spec;
  spec.argv = {python.string(), (root / "tools/goldens/check_export.py").string()};
  for (const char* name : models) {
    fs::create_directories(folder->path() / name);
    write_again(name, folder->path() / name);
    spec.argv.push_back((folder->path() / name).string());
  }
  spec.environment = {"PYTHONDONTWRITEBYTECODE=1"};
  spec.log = folder->path() / "log";
  auto child = base::subprocess::start(spec);
  REQUIRE(child);
  const auto end = child->wait(240_s);
  const auto log = base::read_file(spec.log);
  REQUIRE(log);
  CAPTURE(*log);
  REQUIRE(end);
  CHECK(end->code == 0);
  CHECK(end->signal == 0);
  CHECK(log->find("transformers agrees") != std::string::npos);
}

TEST_CASE("tokenizer files name only what is there") {
  const auto folder = base::temp_folder::make();
  const auto text = *base::read_file(golden / "tokenizers/trained/tokenizer.json");
  const auto dir = folder->path() / "new";
  CHECK_FALSE(save_tokenizer(dir, text, {"<|missing|>", {}, {}}));
  CHECK_FALSE(save_tokenizer(dir, text, {{}, "the", {}}));
  CHECK_FALSE(save_tokenizer(dir, "{}", {}));
  CHECK_FALSE(save_tokenizer(dir, text, {}, chat_format::qwen3));
  CHECK_FALSE(fs::exists(dir));
  REQUIRE(save_tokenizer(dir, text, {}));
  CHECK(inputs_of(dir) == base::json({"input_ids", "attention_mask"}));
  CHECK_FALSE(fs::exists(dir / "chat_template.jinja"));
  CHECK(*load_chat_format(dir) == chat_format::none);
  REQUIRE(save_tokenizer(dir, text, {}, chat_format::llama3));
  CHECK(*load_chat_format(dir) == chat_format::llama3);
}
