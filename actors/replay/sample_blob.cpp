#include "actors/replay/sample_blob.hpp"

#include "base/bytes.hpp"

namespace quern::actors {
namespace {

constexpr std::uint8_t blob_version = 1;
constexpr std::size_t largest_part = 32U << 20U;

}  // namespace

std::string encode_sample(const generated_sample& sample) {
  base::byte_writer out;
  out.u8(blob_version);
  out.u8(sample.truncated ? 1 : 0);
  out.text(sample.prompt_tokens);
  out.text(sample.tokens);
  out.text(sample.log_probs);
  out.text(sample.text);
  return out.take();
}

base::expected<generated_sample> decode_sample(std::string_view blob) {
  base::byte_reader in(blob);
  QUERN_TRY(const std::uint8_t version, in.u8());
  if (version != blob_version) {
    return base::fail(base::errc::version, "a sample is stored in form {}, this build knows {}",
                      version, blob_version);
  }
  generated_sample sample;
  QUERN_TRY(const std::uint8_t truncated, in.u8());
  QUERN_TRY(const auto prompt_tokens, in.text(largest_part));
  QUERN_TRY(const auto tokens, in.text(largest_part));
  QUERN_TRY(const auto log_probs, in.text(largest_part));
  QUERN_TRY(const auto text, in.text(largest_part));
  QUERN_CHECK(in.finish());
  if (tokens.size() != log_probs.size() || tokens.size() % 4 != 0 ||
      prompt_tokens.size() % 4 != 0) {
    return base::fail(base::errc::corrupt, "a sample has {} bytes of tokens and {} of log-probs",
                      tokens.size(), log_probs.size());
  }
  sample.truncated = truncated != 0;
  sample.prompt_tokens = prompt_tokens;
  sample.tokens = tokens;
  sample.log_probs = log_probs;
  sample.text = text;
  return sample;
}

}  // namespace quern::actors
