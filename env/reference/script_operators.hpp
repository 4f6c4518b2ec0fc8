// The allow-list of operators against what TorchScript has made of a reference's text.
#pragma once

#include <string>

namespace torch::jit {
struct CompilationUnit;
}

namespace quern::env {

/// The first operator of the unit's functions that is not for references (operator_rules.hpp), as
/// "aten::from_file"; empty: there is none. What TorchScript leaves out because it is never reached
/// is not looked at: nothing but TorchScript may run the text.
std::string forbidden_operator(const torch::jit::CompilationUnit& unit);

}  // namespace quern::env
