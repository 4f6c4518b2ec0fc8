// HTTP for the live page of a run.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "tools/page/live_page.hpp"
#include "tools/page/serve_address.hpp"

namespace quern::tools {

/// Serves until its end:
///   GET /           the page (HTML)
///   GET /data.json  its data; with ?since=REVISION status 204 where nothing is new
/// Others get 404, whom the gate does not admit 403. No answer may be kept or framed by others.
class page_server {
 public:
  /// `page` must outlive the server. Errors: unavailable, where the address cannot be bound.
  static base::expected<std::unique_ptr<page_server>> start(live_page& page,
                                                            const serve_address& address,
                                                            page_gate gate);
  /// Ends it, with the answers that are being written.
  ~page_server();
  page_server(const page_server&) = delete;
  page_server& operator=(const page_server&) = delete;

  /// "http://127.0.0.1:8321/", with the token where there is one.
  [[nodiscard]] std::string url() const;
  [[nodiscard]] int port() const;

 private:
  struct parts;
  page_server();
  std::unique_ptr<parts> parts_;
};

}  // namespace quern::tools
