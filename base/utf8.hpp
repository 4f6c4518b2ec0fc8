// Whether bytes are UTF-8 text.
#pragma once

#include <cstddef>
#include <string_view>

namespace quern::base {

/// Offset of the first byte that does not belong to valid UTF-8 (RFC 3629: no overlong forms, no
/// surrogates); the size of `text` where all is valid.
std::size_t first_invalid_utf8(std::string_view text);

}  // namespace quern::base
