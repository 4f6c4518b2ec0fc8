#include "tools/page/page_server.hpp"

#include <charconv>
#include <thread>
#include <utility>

#include <httplib.h>

#include "base/thread.hpp"

namespace quern::tools {
namespace {

/// Each connection takes a thread, so connections are not kept. So many, since one that says its
/// request byte by byte keeps a thread for as long as it likes: a few of them hold nobody else up.
constexpr std::size_t server_threads = 32;
/// Seconds: one that says nothing gives its thread back.
constexpr time_t patience_s = 2;

std::optional<std::int64_t> revision_in(const std::string& text) {
  std::int64_t revision = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), revision);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return revision;
}

httplib::Headers usual_headers() {
  return {{"Cache-Control", "no-store"},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"}};
}

}  // namespace

struct page_server::parts {
  live_page* page = nullptr;
  serve_address address;
  page_gate gate;
  int port = 0;
  httplib::Server server;
  std::thread thread;

  void set_up();
};

void page_server::parts::set_up() {
  server.new_task_queue = [] { return new httplib::ThreadPool(server_threads); };
  server.set_read_timeout(patience_s);
  server.set_write_timeout(patience_s);
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(1024);
  server.set_default_headers(usual_headers());
  // Not SO_REUSEPORT, as is usual there: two servers would share a port and its requests.
  server.set_socket_options([](socket_t made) {
    const int yes = 1;
    ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_pre_routing_handler([this](const httplib::Request& asked, httplib::Response& told) {
    if (gate.admits(asked.get_header_value("Authorization"), asked.get_param_value("token"),
                    asked.get_header_value("Host")))
      return httplib::Server::HandlerResponse::Unhandled;
    told.status = 403;
    told.set_content(
        gate.token.empty() ? "ask for this page as localhost\n" : "the token is missing or wrong\n",
        "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [this](const httplib::Request&, httplib::Response& told) {
    const auto html = page->html();
    told.status = html ? 200 : 500;
    told.set_content(html ? *html : html.error().message, html ? "text/html" : "text/plain");
  });
  server.Get("/data.json", [this](const httplib::Request& asked, httplib::Response& told) {
    const auto answer = page->data(revision_in(asked.get_param_value("since")));
    told.status = answer.json ? 200 : 204;
    if (answer.json) told.set_content(*answer.json, "application/json");
  });
}

page_server::page_server() : parts_(std::make_unique<parts>()) {}

base::expected<std::unique_ptr<page_server>> page_server::start(live_page& page,
                                                                const serve_address& address,
                                                                page_gate gate) {
  std::unique_ptr<page_server> made(new page_server());
  parts& own = *made->parts_;
  own.page = &page;
  own.address = address;
  own.gate = std::move(gate);
  own.set_up();
  own.port = address.port;
  const bool bound = address.port != 0 ? own.server.bind_to_port(address.host, address.port)
                                       : (own.port = own.server.bind_to_any_port(address.host)) > 0;
  if (!bound)
    return base::fail(
        base::errc::unavailable,
        "cannot serve at {} port {}: another program has it, or the address is not of "
        "this machine; --serve HOST:PORT names another, port 0 any that is free",
        address.host, address.port);
  QUERN_TRY(own.thread,
            base::start_thread("serving the page", [&own] { own.server.listen_after_bind(); }));
  // An end before the loop has begun would be lost.
  while (!own.server.is_running())
    std::this_thread::yield();
  return made;
}

page_server::~page_server() {
  parts_->server.stop();
  if (parts_->thread.joinable()) parts_->thread.join();
}

int page_server::port() const {
  return parts_->port;
}

std::string page_server::url() const {
  const std::string& host = parts_->address.host;
  const bool six = host.find(':') != std::string::npos;
  const std::string query =
      parts_->gate.token.empty() ? std::string() : "?token=" + parts_->gate.token;
  return fmt::format("http://{}:{}/{}", six ? "[" + host + "]" : host, parts_->port, query);
}

}  // namespace quern::tools
