// The split patterns of the pre-tokenisers, as hand-written scanners: which pieces of a text are
// encoded on their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quern::policy {

/// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|
/// \s*[\r\n]+|\s+(?!\S)|\s+            with \p{N}{1,3} in place of \p{N} for Llama-3
enum class split_pattern : std::uint8_t { qwen2, llama3 };

/// The regular expression as it stands in tokenizer.json.
std::string_view pattern_text(split_pattern pattern);
/// Nothing for any other expression.
std::optional<split_pattern> pattern_from_text(std::string_view text);

/// The length in bytes, at least 1, of the piece that starts at text[at]; at < text.size(). Calling
/// it again at the end of each piece splits the whole text: the alternatives match at every
/// position.
std::size_t next_piece(split_pattern pattern, std::string_view text, std::size_t at);

}  // namespace quern::policy
