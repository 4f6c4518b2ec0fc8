// Frames of the host protocol, from whoever connects. An input is a row of frames, each behind its
// length: two bytes, the high one first; a frame that the input cuts off ends with it.
#include "env/plugin/message_codec.hpp"
#include "fuzz.hpp"

using namespace quern;
using fuzz::require;

QUERN_FUZZ(text) {
  env::frames parts;
  while (text.size() >= 2 && parts.size() <= env::max_frames + 1) {
    const std::size_t length =
        static_cast<std::uint8_t>(text[0]) * 256U + static_cast<std::uint8_t>(text[1]);
    text.remove_prefix(2);
    parts.emplace_back(text.substr(0, length));
    text.remove_prefix(std::min(length, text.size()));
  }
  const auto what = env::decode(parts);
  if (!what) {
    require(!what.error().message.empty(), "an error has a message");
    return;
  }
  const auto again = env::encode(*what);
  require(again.has_value(), "what was read can be written");
  const auto back = env::decode(*again);
  require(back.has_value() && *back == *what, "what was written is read the same");
}
