// Names of the mistakes.
#include "env/grammar/kernel_error.hpp"

namespace quern::env {

std::string_view name_of(kernel_error error) {
  switch (error) {
    case kernel_error::none:
      return "none";
    case kernel_error::dropped_step:
      return "dropped_step";
    case kernel_error::swapped_steps:
      return "swapped_steps";
    case kernel_error::wrong_constant:
      return "wrong_constant";
    case kernel_error::wrong_operator:
      return "wrong_operator";
    case kernel_error::missing_columns:
      return "missing_columns";
    case kernel_error::missing_rows:
      return "missing_rows";
    case kernel_error::unshifted:
      return "unshifted";
    case kernel_error::missing_barrier:
      return "missing_barrier";
    case kernel_error::unguarded:
      return "unguarded";
  }
  return "unknown";
}

}  // namespace quern::env
