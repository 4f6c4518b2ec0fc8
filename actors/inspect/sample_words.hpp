// Words for people about a sample: its verdict, its state, and why it was dropped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "env/verdict/verdict.hpp"
#include "storage/ledger.hpp"

namespace quern::actors {

/// What a reason of column `drop_reason` means, in a clause: "the run was stopped". A reason that
/// this build does not know is returned as it is.
std::string_view words_for_drop(std::string_view reason);

/// What became of a sample, in a clause: "step 12 used it, and a checkpoint holds that step".
std::string words_for_state(const storage::sample_row& row);

/// A stored verdict; none: it cannot be read.
std::optional<env::verdict> read_verdict(const storage::stored_verdict& stored);

/// "ok 1.37x", "timeout (compile)"; "unreadable" where the stored text is no verdict.
std::string short_verdict(const storage::stored_verdict& stored);
/// The same with the interval of the measurement, or with what was wrong.
std::string long_verdict(const storage::stored_verdict& stored);
std::string long_verdict(const env::verdict& value);

/// "softmax_rows" of "softmax_rows@0123...".
std::string_view task_name(std::string_view task);

/// "1 sample", "3 samples".
std::string counted(std::int64_t count, std::string_view noun);

/// "1.37x".
std::string speedup_text(std::int64_t e2);

}  // namespace quern::actors
