// Golden files of tokenizers, and reading them.
#pragma once

#include <filesystem>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/text/tokenizer.hpp"
#include "support/test.hpp"

namespace quern::test {

/// One folder for each kind, and strings.json.
inline std::filesystem::path tokenizer_goldens() {
  return source_dir() / "tests/golden/policy/tokenizers";
}

inline base::json read_json(const std::filesystem::path& file) {
  const auto text = base::read_file(file);
  REQUIRE(text);
  const auto read = base::parse_json(*text);
  REQUIRE(read);
  return *read;
}

inline policy::tokenizer golden_tokenizer(const char* kind) {
  auto loaded = policy::tokenizer::load(tokenizer_goldens() / kind);
  REQUIRE_MESSAGE(loaded, (loaded ? "" : loaded.error().message));
  return *loaded;
}

}  // namespace quern::test
