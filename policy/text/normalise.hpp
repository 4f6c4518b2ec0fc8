// Unicode normalisation as tokenizers ask for it.
#pragma once

#include <string>
#include <string_view>

namespace quern::policy {

/// NFC (Unicode Standard Annex 15), in n log n also for endless runs of combining marks. Text that
/// is ASCII or not valid UTF-8 comes back as it is.
std::string normalise_nfc(std::string_view text);

}  // namespace quern::policy
