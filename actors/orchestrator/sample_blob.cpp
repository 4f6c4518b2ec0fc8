#include "actors/orchestrator/sample_blob.hpp"

#include "base/bytes.hpp"

namespace quern::actors {
namespace {

constexpr std::uint8_t blob_form = 2;
constexpr std::uint8_t single_turn_form = 1;
constexpr std::size_t largest_part = 32U << 20U;

/// Tokens and segments of form 1: prompt and completion apart, all of the completion trained.
base::status read_single_turn(base::byte_reader& in, generated_sample& sample) {
  QUERN_TRY(const auto prompt, in.text(largest_part));
  QUERN_TRY(const auto completion, in.text(largest_part));
  sample.segments =
      single_turn(static_cast<std::int64_t>(prompt.size() / sizeof(std::int32_t)),
                  static_cast<std::int64_t>(completion.size() / sizeof(std::int32_t)));
  sample.tokens = prompt;
  sample.tokens += completion;
  return {};
}

base::status read_turns(base::byte_reader& in, generated_sample& sample) {
  QUERN_TRY(const auto tokens, in.text(largest_part));
  sample.tokens = tokens;
  // Nothing is reserved for a count that may be any number.
  QUERN_TRY(const std::uint32_t segments, in.u32());
  for (std::uint32_t i = 0; i < segments; ++i) {
    QUERN_TRY(const std::uint32_t length, in.u32());
    QUERN_TRY(const std::uint8_t origin, in.u8());
    QUERN_TRY(const std::uint8_t trained, in.u8());
    sample.segments.push_back({length, static_cast<token_origin>(origin), trained != 0});
  }
  return {};
}

}  // namespace

std::string encode_sample(const generated_sample& sample) {
  base::byte_writer out;
  out.u8(blob_form);
  out.u8(sample.truncated ? 1 : 0);
  out.text(sample.tokens);
  out.u32(static_cast<std::uint32_t>(sample.segments.size()));
  for (const token_segment& part : sample.segments) {
    out.u32(static_cast<std::uint32_t>(part.length));
    out.u8(static_cast<std::uint8_t>(part.origin));
    out.u8(part.trained ? 1 : 0);
  }
  out.text(sample.log_probs);
  out.text(sample.text);
  return out.take();
}

base::expected<generated_sample> decode_sample(std::string_view blob) {
  base::byte_reader in(blob);
  QUERN_TRY(const std::uint8_t form, in.u8());
  if (form != blob_form && form != single_turn_form) {
    return base::fail(base::errc::version,
                      "a sample is stored in form {}, this build knows {} and {}: resume the run "
                      "with the build that wrote it, or a newer one",
                      form, single_turn_form, blob_form);
  }
  generated_sample sample;
  QUERN_TRY(const std::uint8_t truncated, in.u8());
  QUERN_CHECK(form == blob_form ? read_turns(in, sample) : read_single_turn(in, sample));
  QUERN_TRY(const auto log_probs, in.text(largest_part));
  QUERN_TRY(const auto text, in.text(largest_part));
  QUERN_CHECK(in.finish());
  sample.truncated = truncated != 0;
  sample.log_probs = log_probs;
  sample.text = text;
  if (auto whole = check_segments(sample.segments, sample.tokens, sample.log_probs); !whole) {
    return base::fail(base::errc::corrupt, "a stored sample: {}", whole.error().message);
  }
  return sample;
}

}  // namespace quern::actors
