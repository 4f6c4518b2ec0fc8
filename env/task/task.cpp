// Identity of tasks.
#include "env/task/task.hpp"

#include <tuple>

#include "base/hash.hpp"
#include "env/task/task_codec.hpp"

namespace quern::env {

namespace {

bool same_body(const task_body* a, const task_body* b) {
  if (a == b) return true;
  return a != nullptr && b != nullptr && a->equals(*b);
}

}  // namespace

bool operator==(const task& a, const task& b) {
  const auto head = [](const task& of) {
    return std::tie(of.name, of.lane, of.family, of.tolerance, of.baseline, of.degenerate,
                    of.reference);
  };
  return head(a) == head(b) && same_body(a.body.get(), b.body.get());
}

std::string task_id(const task& what) {
  return what.name + "@" + base::to_hex(base::xxh128(to_yaml(what)));
}

std::string_view task_name_of(std::string_view id) {
  return id.substr(0, id.find('@'));
}

std::string_view task_hash_of(std::string_view id) {
  const std::size_t at = id.find('@');
  return at == std::string_view::npos ? std::string_view{} : id.substr(at + 1);
}

}  // namespace quern::env
