// How far ordinary single precision is from the meaning of a task on rows of the timed length.
#pragma once

#include <cstdint>

#include "env/grammar/composition.hpp"
#include "env/task/task.hpp"

namespace quern::test {

/// The largest error of a float kernel that sums in order, in tolerances of `of`: above 1 it would
/// be called wrong. Of one row of the timed length, over all hidden rounds and the timed
/// distributions, `contents` contents of each. `of` is a task of `what`. For any thread.
double worst_long_row_error(const env::composition& what, const env::task& of,
                            std::uint64_t contents);

}  // namespace quern::test
