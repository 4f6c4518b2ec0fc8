// What is compared of a task of KernelBench: facts from a file, and from the sheet of its module.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "env/lanes/pytorch/process/module_sheet.hpp"

namespace quern::tools {

/// What a sheet and the facts can be compared by. `draws` and `constant` are known of a run alone.
struct module_facts {
  std::string init;
  bool init_cut = false;                     ///< `init` is only the beginning
  std::vector<std::string> inputs, outputs;  ///< "float32[2, 3]", or a value
  std::int64_t weight_bytes = 0, bytes = 0;  ///< of parameters; of one call with all weights
  std::size_t plain = 0;                     ///< tensors that state_dict leaves out
  bool contiguous = true;
  bool draws = false;
  bool constant = false;      ///< which hides what was drawn
  bool outputs_known = true;  ///< the facts lack them where a module does not run without values
};

module_facts facts_of(const env::module_sheet& sheet);

/// Of the keys `init` (texts of the values; one of 60 characters was cut there), `in`, `out`
/// ([type, shape, contiguous]), `in_bytes`, `out_bytes`, `param_bytes`, `plain` and `rand_ops`.
/// Where a module does not run without values, `err` stands in the place of all but `init`, `in`
/// and `in_bytes`. Error: invalid_argument.
base::expected<module_facts> read_facts(const base::json& from);

/// What differs, a line each. `ran`: `seen` is of a run with values.
std::vector<std::string> differences(const module_facts& seen, const module_facts& wanted,
                                     bool ran);

}  // namespace quern::tools
