// One HTML file that needs nothing else: what a run, or several, came to.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "base/status.hpp"
#include "tools/page/run_view.hpp"

namespace quern::tools {

/// Where `quern report` puts the page of a run.
std::filesystem::path page_file(const std::filesystem::path& run);

/// JSON that may stand inside of a script element: no text in it can end that element, whatever
/// wrote it. `json`: text as base::dump makes it.
std::string script_json(std::string_view json);

/// What the page is called, and whether it may ask where it came from for what is new.
struct page_head {
  std::string title;
  bool live = false;
};

/// The page for data (run_view::data, compare_json) as JSON text. `nonce`: fresh for each page,
/// letters and digits; the page's own style and script carry it, and its Content-Security-Policy
/// lets nothing else run.
std::string render_page(const page_head& head, std::string_view json, std::string_view nonce);

/// 32 random hexadecimal digits of Linux. Error: io.
base::expected<std::string> fresh_nonce();

/// The static page of the run in `folder`, in `file`; `lock` as for run_view::open. Errors: what is
/// no run; a file that cannot be written.
base::status write_run_page(const std::filesystem::path& folder, const std::filesystem::path& file,
                            lock_holder lock = lock_holder::its_run);

}  // namespace quern::tools
