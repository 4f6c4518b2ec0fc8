#include "actors/prometheus_server.hpp"

#include <thread>

#include <httplib.h>

#include "actors/config/prometheus_check.hpp"
#include "actors/inspect/prometheus_text.hpp"
#include "base/log.hpp"
#include "base/thread.hpp"
#include "storage/jsonl.hpp"

namespace quern::actors {
namespace {

/// Each connection takes a thread, and connections are not kept.
constexpr std::size_t scrape_threads = 2;
/// Seconds: one that says nothing gives its thread back.
constexpr time_t scrape_patience_s = 5;

}  // namespace

struct prometheus_server::parts {
  std::string run_name;
  storage::run_paths paths;
  base::listen_address address;
  int port = 0;
  httplib::Server server;
  std::thread thread;

  void set_up();
  void answer(httplib::Response& told) const;
};

void prometheus_server::parts::answer(httplib::Response& told) const {
  const auto line = storage::last_line_of(paths.metrics());
  told.status = line ? 200 : 500;
  told.set_content(line ? prometheus_text(run_name, *line) : line.error().message + "\n",
                   line ? std::string(prometheus_type) : "text/plain");
}

void prometheus_server::parts::set_up() {
  server.new_task_queue = [] { return new httplib::ThreadPool(scrape_threads); };
  server.set_read_timeout(scrape_patience_s);
  server.set_write_timeout(scrape_patience_s);
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(1024);
  server.set_default_headers(
      {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}});
  // Not SO_REUSEPORT, as is usual there: two runs would share a port and its requests.
  server.set_socket_options([](socket_t made) {
    const int yes = 1;
    ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.Get("/metrics", [this](const httplib::Request& asked, httplib::Response& told) {
    // A page that a browser of this machine shows could else have its own name lead here.
    if (address.is_local() && !base::names_this_machine(asked.get_header_value("Host"))) {
      told.status = 403;
      told.set_content("ask for it as localhost\n", "text/plain");
      return;
    }
    answer(told);
  });
}

prometheus_server::prometheus_server() : parts_(std::make_unique<parts>()) {}

base::expected<std::unique_ptr<prometheus_server>> prometheus_server::start(
    const run_config& config, const storage::run_paths& paths) {
  if (config.observe.prometheus.empty()) return nullptr;
  std::unique_ptr<prometheus_server> made(new prometheus_server());
  parts& own = *made->parts_;
  QUERN_TRY(own.address, prometheus_address(config.observe.prometheus));
  own.run_name = config.run.name;
  own.paths = paths;
  own.set_up();
  const std::string& host = own.address.host;
  own.port = own.address.port;
  const bool bound = own.port != 0 ? own.server.bind_to_port(host, own.port)
                                   : (own.port = own.server.bind_to_any_port(host)) > 0;
  if (!bound) {
    QUERN_CHECK(check_prometheus(config));
    return base::fail(base::errc::unavailable, "observe.prometheus is '{}': cannot listen there",
                      config.observe.prometheus);
  }
  QUERN_TRY(own.thread, base::start_thread("serving numbers to Prometheus",
                                           [&own] { own.server.listen_after_bind(); }));
  // An end before the loop has begun would be lost.
  while (!own.server.is_running())
    std::this_thread::yield();
  const bool six = host.find(':') != std::string::npos;
  base::log_info("control", "Prometheus finds the numbers of the run at http://{}:{}/metrics",
                 six ? "[" + host + "]" : host, own.port);
  return made;
}

prometheus_server::~prometheus_server() {
  parts_->server.stop();
  if (parts_->thread.joinable()) parts_->thread.join();
}

int prometheus_server::port() const {
  return parts_->port;
}

}  // namespace quern::actors
