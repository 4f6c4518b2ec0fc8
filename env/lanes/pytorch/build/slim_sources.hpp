// The files that one extension is compiled from: as torch writes them, and with slim headers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "env/lanes/pytorch/build/extension_request.hpp"

namespace quern::env {

struct build_source {
  std::string name;  ///< in the work folder: torch's own, or that of a file that `load` was given
  std::string text;
  bool cuda = false;  ///< for nvcc
  bool operator==(const build_source&) const = default;
};

/// What torch.utils.cpp_extension would compile for the request, its binding included.
std::vector<build_source> full_sources(const extension_request& request);

/// A name of `functions` that no C++ source of an inline request can declare, since it does not
/// occur there: what binds it cannot be compiled, which torch's headers take a quarter of a minute
/// to say. None: each occurs, or something is there that may bring one in (a header of the
/// candidate's, `using namespace`, `##`).
std::optional<std::string> undeclared_function(const extension_request& request);

/// Whether ATen has a header for an operator's name ("relu": ATen/ops/relu.h).
using operator_headers = std::function<bool(std::string_view name)>;

/// The same with the headers of the folder `headers` in place of torch/extension.h and its like,
/// and a binding of ours in place of pybind11. Lines keep their numbers. None: a file includes what
/// has no slim form, so that a try would only cost time.
std::optional<std::vector<build_source>> slim_sources(const extension_request& request,
                                                      const operator_headers& has);

}  // namespace quern::env
