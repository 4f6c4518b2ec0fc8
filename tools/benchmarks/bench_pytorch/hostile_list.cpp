#include "tools/benchmarks/bench_pytorch/hostile_list.hpp"

#include <algorithm>
#include <filesystem>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/file.hpp"

namespace quern::tools {
namespace {

bool holds_kind(const std::vector<env::verdict_kind>& kinds, env::verdict_kind kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

base::expected<std::shared_ptr<const env::task>> read_hostile_task(const pytorch_bench_options& o,
                                                                   const std::string& name) {
  const std::filesystem::path tree(o.source);
  QUERN_TRY(const auto text,
            base::read_file(tree / "tests/hostile/pytorch/tasks" / (name + ".py"), 1U << 16U));
  return module_task_of(name, text);
}

}  // namespace

trial_end end_of_trial(const hostile_module& one, const env::verdict& v, bool on_gpu) {
  if (is_own_fault(v.kind))
    return on_gpu || holds_kind(one.caught, v.kind) ? trial_end::caught : trial_end::other_catch;
  const bool may_be_ok = holds_kind(one.caught, env::verdict_kind::ok);
  if (v.kind == env::verdict_kind::noisy && may_be_ok) return trial_end::no_gain;
  if (v.kind != env::verdict_kind::ok) return trial_end::undecided;
  if (!may_be_ok) return trial_end::accepted;
  if (!claims_gain(v)) return trial_end::no_gain;
  return one.is_known_gap ? trial_end::gap : trial_end::claims;
}

base::expected<hostile_places> open_hostile_places() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  if (socket < 0 || ::bind(socket, reinterpret_cast<const sockaddr*>(&place), length) != 0 ||
      ::listen(socket, 4) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&place), &length) != 0)
    return base::fail_errno("listening on a port of this machine");
  return hostile_places{std::filesystem::temp_directory_path().string(), ntohs(place.sin_port)};
}

base::expected<std::vector<hostile_module>> read_hostile_of_device(const pytorch_bench_options& o) {
  QUERN_TRY(const auto places, open_hostile_places());
  QUERN_TRY(auto all, read_hostile_modules(o.source, places));
  std::erase_if(all,
                [&](const hostile_module& one) { return o.gpu ? !one.on_gpus : !one.on_cores; });
  return all;
}

base::expected<hostile_subjects> read_hostile_subjects(const pytorch_bench_options& o) {
  hostile_subjects subjects;
  QUERN_TRY(subjects.small, read_hostile_task(o, "layered"));
  QUERN_TRY(subjects.usual, read_hostile_task(o, o.gpu ? "layered_wide" : "layered"));
  return subjects;
}

env::evaluation_request hostile_request(const hostile_module& one, const hostile_subjects& subjects,
                                        std::uint64_t trial) {
  env::evaluation_request request;
  request.subject = one.is_small ? subjects.small : subjects.usual;
  request.source = one.source + fmt::format("\ntrial_of_quern = {}\n", trial);
  request.seed = trial;
  return request;
}

}  // namespace quern::tools
