// Texts from outside (compilers' messages, generated code) through the tokenizer of the demo policy
// and, where the text is valid, through the normaliser that other policies have.
#include <filesystem>

#include "fuzz.hpp"
#include "policy/text/normalise.hpp"
#include "policy/text/tokenizer.hpp"
#include "policy/text/utf8.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  static const auto demo = policy::tokenizer::load(QUERN_SOURCE_DIR "/policy/demo").value();
  const auto ids = demo.encode(text);
  for (const policy::token_id id : ids) {
    require(id >= 0 && id < demo.vocab_size(), "ids are of the vocabulary");
    require(!demo.is_special(id), "no text makes a special token");
  }
  require(demo.decode(ids) == text, "decoding gives the text back");
  const std::string once = policy::normalise_nfc(text);
  require(policy::normalise_nfc(once) == once, "what is normal stays as it is");
}
