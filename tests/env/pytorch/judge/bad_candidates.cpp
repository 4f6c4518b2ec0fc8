// The candidates of tests/hostile/pytorch as the cases of this folder judge them.
#include "bad_candidates.hpp"

#include <algorithm>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "support/test.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"

namespace quern::test::modules {
namespace {

env::judge_layer layer_of(const std::string& name) {
  const auto* const at =
      std::find(std::begin(env::judge_layer_names), std::end(env::judge_layer_names), name);
  if (at == std::end(env::judge_layer_names)) throw std::logic_error("no layer: " + name);
  return static_cast<env::judge_layer>(at - std::begin(env::judge_layer_names));
}

/// Those of a kind that only timed calls tell, or a check without a clock.
std::vector<bad_candidate> of_kind(const std::string& kind, const reached_for& what = {},
                                   bool timed = false) {
  const auto all = tools::read_hostile_modules(source_dir(), {what.folder, what.port});
  if (!all) throw std::runtime_error(all.error().message);
  std::vector<bad_candidate> found;
  for (const tools::hostile_module& one : *all) {
    if (one.kind != kind || !one.on_cores || one.only_timed != timed) continue;
    bad_candidate bad{one.attempt, one.source, one.caught, one.said, one.reason, {}};
    for (const std::string& name : one.without)
      bad.without.push_back(layer_of(name));
    found.push_back(std::move(bad));
  }
  return found;
}

}  // namespace

std::vector<bad_candidate> wrong_candidates() {
  return of_kind("wrong");
}

std::vector<bad_candidate> malformed_candidates() {
  return of_kind("malformed");
}

std::vector<bad_candidate> hostile_candidates() {
  return of_kind("hostile");
}

std::vector<bad_candidate> timed_candidates() {
  auto all = of_kind("hostile", {}, true);
  std::erase_if(all, [](const bad_candidate& one) { return one.without.empty(); });
  return all;
}

std::vector<bad_candidate> reaching_candidates(const reached_for& what) {
  return of_kind("reaching", what);
}

int listening_port() {
  static const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  static const bool listens =
      ::bind(socket, reinterpret_cast<const sockaddr*>(&place), length) == 0 &&
      ::listen(socket, 4) == 0;
  REQUIRE(listens);
  REQUIRE(::getsockname(socket, reinterpret_cast<sockaddr*>(&place), &length) == 0);
  return ntohs(place.sin_port);
}

}  // namespace quern::test::modules
