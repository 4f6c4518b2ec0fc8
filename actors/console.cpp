#include "actors/console.hpp"

#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/thread.hpp"

namespace quern::actors {
namespace {

constexpr std::size_t longest_line = 1U << 20U;
constexpr int patience_s = 5;

base::expected<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return base::fail(
        base::errc::invalid_argument,
        "socket path {} has {} bytes, at most {} are possible: set TMPDIR to a shorter folder",
        path, path.size(), sizeof address.sun_path - 1);
  }
  path.copy(address.sun_path, path.size());
  return address;
}

void set_patience(int fd) {
  const timeval patience{patience_s, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

base::json answer(const base::json& request, const console_commands& commands) {
  const auto found = request.is_object() ? request.find("command") : request.end();
  const std::string command =
      found != request.end() && found->is_string() ? found->get<std::string>() : "";
  if (command == "status") return commands.status();
  if (command == "pause" || command == "stop") {
    const ending asked = command == "pause" ? ending::pause : ending::stop;
    return {{"ok", commands.end(asked) == asked}};
  }
  return {{"error", "unknown command '" + command + "'; known: status, pause, stop"}};
}

base::expected<std::string> read_line(int fd) {
  std::string line;
  char buffer[4096];
  while (line.find('\n') == std::string::npos) {
    const ssize_t count = ::read(fd, buffer, sizeof buffer);
    if (count < 0) return base::fail(base::errc::timeout, "no answer within {} s", patience_s);
    if (count == 0 || line.size() > longest_line) {
      return base::fail(base::errc::unavailable, "the connection was closed");
    }
    line.append(buffer, static_cast<std::size_t>(count));
  }
  return line.substr(0, line.find('\n'));
}

}  // namespace

struct console::state {
  base::unique_fd listener;
  base::unique_fd stop;
  std::string path;
  console_commands commands;
  std::thread thread;

  void serve_one() {
    const base::unique_fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer) return;
    set_patience(peer.get());
    const auto line = read_line(peer.get());
    if (!line) return;
    const auto request = base::parse_json(*line);
    const base::json reply =
        request ? answer(*request, commands) : base::json{{"error", request.error().message}};
    // A client that hangs up early misses its own answer, nobody else's.
    (void)base::write_all(peer.get(), base::dump(reply) + "\n");
  }

  void run() {
    while (true) {
      pollfd watched[2] = {{listener.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}};
      if (::poll(watched, 2, -1) < 0) continue;
      if (watched[1].revents != 0) return;
      serve_one();
    }
  }
};

console::console(std::unique_ptr<state> s) : state_(std::move(s)) {}

console::~console() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(state_->stop.get(), &one, sizeof one);
  state_->thread.join();
  ::unlink(state_->path.c_str());
}

base::expected<std::unique_ptr<console>> console::serve(const std::string& socket_path,
                                                        console_commands commands) {
  QUERN_TRY(const sockaddr_un address, address_of(socket_path));
  auto made = std::make_unique<state>();
  made->path = socket_path;
  made->commands = std::move(commands);
  made->listener.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  made->stop.reset(::eventfd(0, EFD_CLOEXEC));
  ::unlink(socket_path.c_str());
  if (!made->listener || !made->stop ||
      ::bind(made->listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0 ||
      ::listen(made->listener.get(), 8) != 0) {
    return base::fail_errno("cannot listen at " + socket_path);
  }
  state* raw = made.get();
  QUERN_TRY(made->thread, base::start_thread("the console", [raw] { raw->run(); }));
  return std::unique_ptr<console>(new console(std::move(made)));
}

base::expected<base::json> ask_console(const std::string& socket_path, const base::json& request) {
  QUERN_TRY(const sockaddr_un address, address_of(socket_path));
  const base::unique_fd peer(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!peer) return base::fail_errno("cannot make a socket");
  set_patience(peer.get());
  if (::connect(peer.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return base::fail(base::errc::unavailable, "nobody listens at {}", socket_path);
  }
  QUERN_CHECK(base::write_all(peer.get(), base::dump(request) + "\n"));
  QUERN_TRY(const std::string line, read_line(peer.get()));
  return base::parse_json(line);
}

}  // namespace quern::actors
