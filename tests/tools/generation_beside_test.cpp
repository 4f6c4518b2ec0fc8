// tools/generation_beside_transformers with a torch, a transformers and rates that are made up: its
// options are known to bench_generate, its figures and exit code are those of the rates.
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "support/test.hpp"

using namespace quern;
using base::operator""_s;
namespace fs = std::filesystem;

namespace {

/// Generates nothing, in a millisecond a token.
constexpr std::string_view made_up_torch = R"(import contextlib, time
__version__ = 'made up'
class Tokens:
    is_cuda = False
    def __init__(self, rows, length): self.shape = (rows, length)
    def to(self, device): return self
class cuda:
    is_available = staticmethod(lambda: True)
    get_device_name = staticmethod(lambda: 'a device')
    empty_cache = staticmethod(lambda: None)
class Generator:
    def __init__(self, device): pass
    def manual_seed(self, seed): return self
bfloat16 = 'bfloat16'
device = lambda name: contextlib.nullcontext()
inference_mode = contextlib.nullcontext
ones_like = lambda x: x
randint = lambda low, high, size, generator: Tokens(*size)
)";
constexpr std::string_view made_up_transformers = R"(import time, torch
__version__ = 'made up'
class logging:
    set_verbosity_error = staticmethod(lambda: None)
class AutoConfig:
    @staticmethod
    def from_pretrained(file):
        import json
        return type('Config', (), json.load(open(file)))
class GenerationConfig:
    def __init__(self, **how): assert how['eos_token_id'] is None
class Model:
    def __init__(self, config): self.config = config
    def eval(self): return self
    def generate(self, prompts, attention_mask, min_new_tokens, max_new_tokens):
        assert min_new_tokens == max_new_tokens
        time.sleep(0.001 * max_new_tokens)
        return torch.Tokens(prompts.shape[0], prompts.shape[1] + max_new_tokens)
class AutoModelForCausalLM:
    @staticmethod
    def from_config(config, dtype, attn_implementation): return Model(config)
)";

struct tool_end {
  int code = -1;
  std::string said;
};

struct tool_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());

  void write(const char* name, std::string_view text) const {
    const fs::path path = folder.path() / name;
    REQUIRE(base::make_folders(path.parent_path()));
    REQUIRE(base::write_file_atomic(path, text));
  }
  /// `rate`: tokens a second that bench_generate is made to print. The real one gets the same
  /// options before: all that it may lack is a device.
  [[nodiscard]] tool_end run(const std::string& rate, std::vector<std::string> options = {}) const {
    write("modules/torch.py", made_up_torch);
    write("modules/transformers.py", made_up_transformers);
    const std::string real = (test::program_dir() / "bench_generate").string();
    write("build/bin/bench_generate",
          "#!/bin/sh\nsaid=$(" + real +
              " \"$@\" 2>&1 >/dev/null) || case $said in *'device cuda is asked for'*) ;; *) echo "
              "\"$said\" >&2; exit 9 ;; esac\nprintf 'decode\\n[\\n"
              "{\"batch\": 2, \"tokens_per_s\": " +
              rate + "}, {\"batch\": 5, \"tokens_per_s\": " + rate + "}]\\n'\n");
    fs::permissions(folder.path() / "build/bin/bench_generate", fs::perms::owner_all);
    std::vector<std::string> argv = {
        (test::source_dir() / "tools/generation_beside_transformers").string(),
        "--build",
        (folder.path() / "build").string(),
        "--models",
        "0.5B",
        "--batch",
        "2,5",
        "--new",
        "16"};
    argv.insert(argv.end(), options.begin(), options.end());
    const fs::path log = folder.path() / "log";
    fs::remove(log);
    auto child = base::subprocess::start(
        {.argv = std::move(argv),
         .environment = {"PYTHONPATH=" + (folder.path() / "modules").string(),
                         "QUERN_PYTHON=python3"},
         .log = log});
    REQUIRE(child);
    const auto end = child->wait(240_s);
    REQUIRE(end);
    return {end->code, base::read_file(log).value_or("")};
  }
};

}  // namespace

TEST_CASE("generation is compared at every batch, and what is slower is told") {
  const tool_fixture f;
  const tool_end faster = f.run("1e12");
  CAPTURE(faster.said);
  CHECK(faster.code == 0);
  CHECK(test::contains(faster.said, "0.5B, batch   2: "));
  CHECK(test::contains(faster.said, "0.5B, batch   5: "));
  CHECK(test::contains(faster.said, "0 of 2 slower"));
  const tool_end slower = f.run("0");
  CAPTURE(slower.said);
  CHECK(slower.code == 1);
  CHECK(test::contains(slower.said, "** 0.5B, batch   5: "));
  CHECK(test::contains(slower.said, "2 of 2 slower"));
}

TEST_CASE("options that mean nothing are refused with what is allowed") {
  const tool_fixture f;
  for (const auto& [options, part] :
       {std::pair{std::vector<std::string>{"--batch", "2,0"}, "'2,0'"},
        {{"--context", "40"}, "--context 40 --new 16"},
        {{"--new", "7"}, "at least 8"}}) {
    const tool_end end = f.run("1", options);
    CAPTURE(end.said);
    CHECK(end.code == 2);
    CHECK(test::contains(end.said, part));
  }
  const tool_end unknown = f.run("1", {"--models", "3B"});
  CAPTURE(unknown.said);
  CHECK(unknown.code == 1);
  CHECK(test::contains(unknown.said, "no shape '3B'"));
}
