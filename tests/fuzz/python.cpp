// Python modules (candidates, references, tasks): the tokenizer, the canonical form, the facts.
#include "env/lanes/pytorch/text/python_facts.hpp"
#include "env/lanes/pytorch/text/python_identity.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const env::python_tokens cut = env::tokenize_python(text);
  std::size_t before = 0;
  std::uint32_t line = 1;
  std::size_t level = 0;
  for (const env::python_token& one : cut.tokens) {
    const bool is_level =
        one.kind == env::python_token_kind::indent || one.kind == env::python_token_kind::dedent;
    require(one.begin >= before && one.end <= cut.text.size(), "tokens stand one behind the other");
    require(is_level ? one.begin == one.end : one.begin < one.end,
            "a token has a text, a level none");
    require(one.line >= line, "lines go up");
    if (one.kind == env::python_token_kind::indent) ++level;
    if (one.kind == env::python_token_kind::dedent) {
      require(level > 0, "a level that ends has begun");
      --level;
    }
    before = one.end;
    line = one.line;
  }
  const env::python_facts facts = env::facts_of_python(cut);
  const env::python_canonical canonical = env::canonical_python(text);
  require(env::python_hash(text) == env::python_hash(std::string(text)),
          "a hash is one of the text");
  const bool by_tokens = canonical.form == env::python_form::tokens;
  require(by_tokens == (!cut.fault && !env::python_sees_layout(text)),
          "forms are what is said of them");
  if (!by_tokens) {
    require(canonical.text == text, "form `bytes` is the text");
    return;
  }
  require(level == 0, "levels that begin end");
  require(env::canonical_python(canonical.text) == canonical, "a canonical text is canonical");
  require(env::python_hash(canonical.text) == env::python_hash(text), "both are one candidate");
  require(env::facts_of_python(env::tokenize_python(canonical.text)) == facts, "layout is no fact");
  const std::string longer = std::string(text) + "\n\n   # a comment\n";
  require(env::python_hash(longer) == env::python_hash(text), "a comment changes nothing");
}
