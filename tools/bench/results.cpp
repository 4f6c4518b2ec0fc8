#include "tools/bench/results.hpp"

#include <cerrno>
#include <set>

#include <fcntl.h>
#include <sys/file.h>

#include "base/hash.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using base::errc;

constexpr std::int64_t bench_version = 1;
constexpr std::size_t max_results_bytes = std::size_t{4} << 30U;

base::status refuse_results(std::string_view what, std::string_view there, std::string_view now) {
  return base::fail(errc::invalid_argument,
                    "holds results of another {} ('{}', now '{}'), which cannot stand beside new "
                    "ones: name another file with --out",
                    what, there, now);
}

/// The file, held until it is closed.
base::expected<base::unique_fd> lock_results(const fs::path& path, int how) {
  base::unique_fd lock(::open(path.c_str(), how | O_CLOEXEC, 0644));
  if (!lock && errno == EISDIR)
    return base::fail(errc::invalid_argument, "{} is a folder: name a file with --out",
                      path.string());
  if (!lock) return base::fail_errno("cannot open " + path.string());
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK)
    return base::fail(
        errc::conflict,
        "{}: another quern bench is writing to it: wait for its end, or name another file with "
        "--out",
        path.string());
  return base::fail_errno("cannot lock " + path.string());
}

/// All whole lines behind the header, checked.
base::expected<std::vector<bench_result>> read_results(const fs::path& path,
                                                       const bench_header& header) {
  std::vector<bench_result> all;
  std::set<std::pair<std::string, std::string>> seen;
  std::size_t number = 0;
  auto read = storage::read_jsonl(path, [&](const base::json& value) -> base::status {
    const std::string where = fmt::format("{} line {}", path.string(), ++number);
    if (number == 1) {
      const auto there = header_from_json(value);
      if (!there)
        return base::fail(errc::invalid_argument,
                          "{} is no file of results of quern bench ({}): name another one with "
                          "--out",
                          path.string(), there.error().message);
      if (const auto same = check_same(*there, header); !same)
        return base::in_context(path.string(), same.error());
      return {};
    }
    auto one = result_from_json(value);
    if (!one) return base::fail(errc::corrupt, "{}: {}", where, one.error().message);
    const bool other = !header.environment.empty() && one->verdict.env != header.environment;
    if (other || one->verdict.protocol != header.protocol)
      return base::fail(errc::corrupt,
                        "{}: the verdict is of protocol '{}' and environment '{}', the file of "
                        "'{}' and '{}'",
                        where, one->verdict.protocol, one->verdict.env, header.protocol,
                        header.environment);
    if (!seen.emplace(one->task, one->candidate).second)
      return base::fail(errc::corrupt, "{}: a second verdict about '{}' of task {}", where,
                        one->candidate, one->task);
    all.push_back(std::move(*one));
    return {};
  });
  if (read) return all;
  base::error problem = std::move(read.error());
  if (number == 0 && problem.code == errc::corrupt)
    return base::fail(errc::invalid_argument,
                      "{} is no file of results of quern bench ({}): name another one with --out",
                      path.string(), problem.message);
  if (problem.code == errc::corrupt)
    problem.message += "; take that line out, or name another file with --out";
  return tl::make_unexpected(std::move(problem));
}

}  // namespace

bool is_left_out(const env::verdict& v) {
  return v.kind == env::verdict_kind::infra_error && v.reason == left_out_reason;
}

bool is_final(const env::verdict& v) {
  return is_left_out(v) || (v.kind != env::verdict_kind::infra_error &&
                            v.kind != env::verdict_kind::invalid_reference);
}

std::string suite_hash(const env::suite& suite) {
  base::hasher all;
  for (const env::suite_member& member : suite.members)
    all.add(member.id);
  const env::suite_policy& policy = suite.policy;
  return base::to_hex(
      all.add(fmt::format("{} {} {} {} {}{}", suite.recheck_above_e2, policy.library_calls,
                          policy.lower_precision, policy.graphs, policy.host_entry,
                          policy.by_evidence ? " by_evidence" : ""))
          .digest());
}

base::ordered_json to_json(const bench_header& header) {
  base::ordered_json out = {
      {"quern_bench", bench_version},      {"suite", header.suite},
      {"suite_hash", header.suite_hash},   {"lane", header.lane},
      {"protocol", header.protocol},       {"device_class", header.device_class},
      {"environment", header.environment}, {"budget_ms", header.budget_ms}};
  if (header.timeout_ms > 0) out["timeout_ms"] = header.timeout_ms;
  return out;
}

base::ordered_json to_json(const bench_result& result) {
  return {{"task", result.task},
          {"candidate", result.candidate},
          {"source", result.source},
          {"verdict", base::ordered_json(env::to_json(result.verdict))}};
}

base::expected<bench_header> header_from_json(const base::json& value) {
  if (!value.is_object() || !value.contains("quern_bench"))
    return base::fail(errc::invalid_argument, "its first line has no 'quern_bench'");
  QUERN_TRY(const auto version, base::get<std::int64_t>(value, "quern_bench"));
  if (version != bench_version)
    return base::fail(errc::version, "quern_bench is {}, this build knows {}", version,
                      bench_version);
  bench_header header;
  QUERN_TRY(header.suite, base::get<std::string>(value, "suite"));
  QUERN_TRY(header.suite_hash, base::get<std::string>(value, "suite_hash"));
  QUERN_TRY(header.lane, base::get<std::string>(value, "lane"));
  QUERN_TRY(header.protocol, base::get<std::string>(value, "protocol"));
  QUERN_TRY(header.device_class, base::get<std::string>(value, "device_class"));
  QUERN_TRY(header.environment, base::get<std::string>(value, "environment"));
  QUERN_TRY(header.budget_ms, base::get<std::int64_t>(value, "budget_ms"));
  if (value.contains("timeout_ms")) {
    QUERN_TRY(header.timeout_ms, base::get<std::int64_t>(value, "timeout_ms"));
  }
  return header;
}

base::expected<bench_result> result_from_json(const base::json& value) {
  bench_result result;
  QUERN_TRY(result.task, base::get<std::string>(value, "task"));
  QUERN_TRY(result.candidate, base::get<std::string>(value, "candidate"));
  QUERN_TRY(result.source, base::get<std::string>(value, "source"));
  const auto verdict = value.find("verdict");
  if (verdict == value.end()) return base::fail(errc::invalid_argument, "has no 'verdict'");
  QUERN_TRY(result.verdict, env::verdict_from_json(*verdict));
  return result;
}

base::status check_same(const bench_header& there, const bench_header& now) {
  if (there.suite_hash != now.suite_hash) {
    if (there.suite != now.suite) return refuse_results("suite", there.suite, now.suite);
    return refuse_results("state of the suite", there.suite_hash, now.suite_hash);
  }
  if (there.protocol != now.protocol)
    return refuse_results("protocol", there.protocol, now.protocol);
  if (!now.device_class.empty() && there.device_class != now.device_class)
    return refuse_results("device class", there.device_class, now.device_class);
  if (!now.environment.empty() && there.environment != now.environment)
    return refuse_results("environment (compiler, flags, libraries, device, build of quern)",
                          there.environment, now.environment);
  if (there.budget_ms != now.budget_ms)
    return refuse_results("budget of measuring, in ms", std::to_string(there.budget_ms),
                          std::to_string(now.budget_ms));
  if (there.timeout_ms != now.timeout_ms)
    return refuse_results("limit of an evaluation, in ms (--timeout; 0: none)",
                          std::to_string(there.timeout_ms), std::to_string(now.timeout_ms));
  return {};
}

base::expected<std::vector<bench_result>> peek_results(const fs::path& path,
                                                       const bench_header& header) {
  std::error_code code;
  if (!fs::exists(path, code)) return std::vector<bench_result>();
  QUERN_CHECK(lock_results(path, O_RDWR));
  return read_results(path, header);
}

base::expected<results_file> results_file::open(const fs::path& path, const bench_header& header) {
  QUERN_TRY(base::unique_fd lock, lock_results(path, O_RDWR | O_CREAT));
  QUERN_TRY(const std::string text, base::read_file(path, max_results_bytes));
  const bool begun = text.find('\n') != std::string::npos;
  const std::string first = base::dump(to_json(header)) + "\n";
  // Without a whole line it is new, or our own first line was torn; all else is somebody's file.
  if (!begun && !first.starts_with(text))
    return base::fail(errc::invalid_argument,
                      "{} is no file of results of quern bench: name another one with --out",
                      path.string());
  QUERN_TRY(auto earlier, read_results(path, header));
  QUERN_TRY(auto writer, storage::jsonl_writer::open(path));
  if (!begun) {
    QUERN_CHECK(writer.append(to_json(header)));
    QUERN_CHECK(writer.sync());
    QUERN_CHECK(base::sync_folder(fs::absolute(path).parent_path()));
  }
  return results_file(std::move(lock), std::move(writer), std::move(earlier));
}

base::status results_file::append(const bench_result& result) {
  QUERN_CHECK(writer_.append(to_json(result)));
  return writer_.sync();
}

}  // namespace quern::tools
