// A tokenizer.json from elsewhere, and what it makes of texts.
#include "policy/text/tokenizer.hpp"

#include "fuzz.hpp"
#include "policy/text/normalise.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  const auto read = policy::tokenizer::parse(text);
  if (!read) {
    require(!read.error().message.empty(), "an error has a message");
    return;
  }
  for (const std::string_view sample :
       {std::string_view("for (int i = 0; i < n; ++i) y[i] = x[i];\n"),
        std::string_view("\xC3\x28 caf\xC3\xA9 e\xCC\x81 <|end|>"), text.substr(0, 64)}) {
    const auto ids = read->encode(sample);
    for (const policy::token_id id : ids)
      require(id >= 0 && id < read->vocab_size(), "ids are of the vocabulary");
    const std::string back = read->decode(ids, false);
    require(back == sample || back == policy::normalise_nfc(sample),
            "decoding gives the text back");
  }
}
