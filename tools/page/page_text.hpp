// The style and the scripts of a page, as they lie beside this file.
#pragma once

#include <string_view>
#include <vector>

namespace quern::tools {

std::string_view page_style();
/// In the order in which they stand in the page.
std::vector<std::string_view> page_scripts();

}  // namespace quern::tools
