#include "tools/page/page.hpp"

#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <sys/random.h>

#include "base/file.hpp"
#include "tools/page/page_text.hpp"

namespace quern::tools {
namespace {

/// A text between tags.
std::string escape_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::filesystem::path page_file(const std::filesystem::path& run) {
  return run / "report.html";
}

std::string script_json(std::string_view json) {
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  // These stand in strings alone, where JSON may write them by number.
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string render_page(const page_head& head, std::string_view json, std::string_view nonce) {
  const std::string_view connect = head.live ? "'self'" : "'none'";
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
      "'nonce-{0}'; style-src 'nonce-{0}'; connect-src {1}; img-src data:; base-uri 'none'; "
      "form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{2}</title>\n",
      nonce, connect, escape_text(head.title));
  page += fmt::format("<style nonce=\"{}\">\n{}</style></head>\n", nonce, page_style());
  page +=
      "<body><nav><div id=\"links\"></div></nav>\n<main id=\"page\"><noscript>This page is drawn "
      "by its script, which this browser does not run. report.txt beside it has the closing "
      "report.</noscript></main>\n";
  page += "<script type=\"application/json\" id=\"data\">" + script_json(json) + "</script>\n";
  page += fmt::format("<script nonce=\"{}\">\n(() => {{\n'use strict';\n", nonce);
  for (const std::string_view script : page_scripts())
    page += script;
  return page + "})();\n</script></body></html>\n";
}

base::expected<std::string> fresh_nonce() {
  std::array<unsigned char, 16> drawn{};
  if (getrandom(drawn.data(), drawn.size(), 0) != std::ssize(drawn))
    return base::fail_errno("getrandom");
  std::string nonce;
  for (const unsigned char byte : drawn)
    nonce += fmt::format("{:02x}", byte);
  return nonce;
}

base::status write_run_page(const std::filesystem::path& folder, const std::filesystem::path& file,
                            lock_holder lock) {
  QUERN_TRY(auto view, run_view::open(folder, lock));
  QUERN_TRY(const std::string nonce, fresh_nonce());
  view.refresh();
  return base::write_file_atomic(
      file, render_page({"quern report: " + view.name()}, base::dump(view.data(false)), nonce));
}

}  // namespace quern::tools
