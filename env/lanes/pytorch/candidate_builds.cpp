// The extensions of one candidate.
#include "env/lanes/pytorch/candidate_builds.hpp"

#include <algorithm>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/measuring_cores.hpp"
#include "base/program.hpp"
#include "env/lanes/pytorch/module_task.hpp"

namespace quern::env {
namespace {

namespace fs = std::filesystem;

/// What a process recorded of a text, and whether it was gone before it had told all.
struct told_requests {
  std::vector<extension_request> requests;
  bool is_gone = false;
};

/// By a child that has no module yet and is shown the file.
base::expected<told_requests> recorded_by(python_child& child, const std::string& path,
                                          const module_sheet* sheet,
                                          const recording_limits& limits) {
  const auto is_gone = [](const runner_failure& why) {
    return why.failure_kind == runner_failure::kind::gone;
  };
  const auto imported = child.record(path, limits.load);
  if (!imported && imported.error().failure_kind == runner_failure::kind::timeout)
    return base::fail(base::errc::timeout, "{}", imported.error().text);
  if (!imported) return told_requests{{}, is_gone(imported.error())};
  QUERN_TRY(auto recorded, parse_recorded_extensions(*imported));
  // What a stage breaks off leaves the requests of those before it.
  if (recorded.asks_later) {
    const auto made = child.record_making(sheet != nullptr ? sheet->init : "[]", limits.load);
    if (!made) return told_requests{std::move(recorded.requests), is_gone(made.error())};
    QUERN_TRY(recorded, parse_recorded_extensions(*made));
  }
  if (recorded.asks_later) {
    const auto called =
        child.record_call(sheet != nullptr ? arguments_json(*sheet) : base::json(), limits.call);
    if (!called) return told_requests{std::move(recorded.requests), is_gone(called.error())};
    QUERN_TRY(recorded, parse_recorded_extensions(*called));
  }
  return told_requests{std::move(recorded.requests), false};
}

/// By a process of `python`. One that is gone may have been killed from outside: then by another.
template <class Python>
base::expected<std::vector<extension_request>> recorded_with(Python& python,
                                                             const std::string& path,
                                                             const module_sheet* sheet,
                                                             const recording_limits& limits) {
  python_start how;
  how.read_only = {path};
  for (bool once_more = true;; once_more = false) {
    auto child = python.fork(how);
    if (!child) return base::fail(base::errc::unavailable, "{}", child.error().message);
    QUERN_TRY(auto told, recorded_by(*child, path, sheet, limits));
    if (!told.is_gone || !once_more) return std::move(told.requests);
  }
}

}  // namespace

std::string cannot_run_here(const python_facts& facts) {
  if (facts.uses_cute) return "kernels in CuTe need a GPU";
  if (facts.uses_tilelang) return "kernels in TileLang need a GPU";
  if (facts.uses_triton_jit) return "kernels in Triton need a GPU";
  if (facts.uses_cuda_graph) return "CUDA graphs need a GPU";
  if (facts.uses_torch_compile) return "torch.compile needs a compiler where the module runs";
  return {};
}

std::string cannot_run_here(const std::vector<extension_request>& requests) {
  for (const extension_request& one : requests)
    if (one.with_cuda || !one.cuda_sources.empty())
      return fmt::format("the CUDA sources of extension '{}' need a GPU", one.name);
  return {};
}

base::expected<std::vector<extension_request>> recorded_extensions(python_zygote& zygote,
                                                                   const std::string& path,
                                                                   const module_sheet* sheet,
                                                                   const recording_limits& limits) {
  return recorded_with(zygote, path, sheet, limits);
}

base::expected<std::vector<extension_request>> recorded_extensions(recording_python& python,
                                                                   const std::string& path,
                                                                   const module_sheet* sheet,
                                                                   const recording_limits& limits) {
  return recorded_with(python, path, sheet, limits);
}

std::optional<finding> finding_of_recording(const base::error& e) {
  if (e.code == base::errc::invalid_argument)
    return finding{verdict_kind::compile_error, "", e.message, std::nullopt};
  if (e.code == base::errc::timeout)
    return finding{verdict_kind::timeout, "load", e.message, std::nullopt};
  return std::nullopt;
}

std::string why_not_loaded(const candidate_extensions& built, const std::string& said) {
  if (!built.told || built.told->outcome == compile_result::kind::built) return said;
  const std::string& text = built.told->text;
  return text.substr(0, text.find('\n'));
}

void candidate_builds::warm_up() {
  if (opener_.joinable()) return;
  {
    const std::lock_guard lock(opening_);
    headers_ahead_ = true;
  }
  opener_ = std::jthread([this] {
    const base::off_measuring_cores beside;
    // What goes wrong here goes wrong again, and is told, when a candidate needs it.
    (void)builder();
  });
}

void candidate_builds::wait_until_warm() {
  if (const auto opened = builder()) (void)(*opened)->headers_read();
}

base::expected<extension_builder*> candidate_builds::builder() {
  const std::lock_guard lock(opening_);
  if (!builder_) {
    if (cache_.empty() && !private_cache_) {
      QUERN_TRY(private_cache_, base::temp_folder::make_held("quern-extensions"));
    }
    extension_options options;
    options.headers_ahead = headers_ahead_;
    options.headers_dir = base::user_cache_folder();
    options.cache_dir = cache_.empty() ? private_cache_->path() : cache_ / "extensions";
    QUERN_TRY(builder_, extension_builder::create(children_, std::move(options)));
  }
  return builder_.get();
}

base::expected<candidate_extensions> candidate_builds::build(
    const std::vector<extension_request>& requests, const fs::path& folder) {
  candidate_extensions built;
  extension_builder* with = nullptr;
  if (!requests.empty()) {
    QUERN_TRY(with, builder());
  }
  base::json index = base::json::array();
  for (const extension_request& one : requests) {
    QUERN_TRY(const auto result, with->build(one));
    QUERN_TRY(auto request, base::parse_json(write_extension_request(one)));
    base::json entry{{"request", std::move(request)}};
    if (result.outcome == compile_result::kind::built) {
      entry["file"] = result.artefact.string();
      built.files.push_back(result.artefact.string());
    } else {
      entry["error"] = result.text;
    }
    if (!built.told || built.told->outcome == compile_result::kind::built) built.told = result;
    index.push_back(std::move(entry));
  }
  const fs::path path = folder / "index.json";
  QUERN_CHECK(base::write_file_atomic(path, base::dump(index)));
  std::error_code failed;
  fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::others_read,
                  failed);
  if (failed)
    return base::fail(base::errc::io, "making {} readable: {}", path.string(), failed.message());
  built.files.push_back(path.string());
  built.folder = folder.string();
  return built;
}

base::status candidate_builds::build_ahead(std::string_view source) {
  const python_facts facts = facts_of_python(tokenize_python(source));
  if (!(facts.uses_load || facts.uses_load_inline)) return {};
  if (!cannot_run_here(facts).empty()) return {};
  QUERN_TRY(auto* with, builder());
  QUERN_TRY(const auto python, find_python_torch(with->python()));
  QUERN_TRY(const auto scripts, base::share_folder("env/lanes/pytorch/build"));
  QUERN_TRY(const auto recorded,
            record_extensions(children_, python, scripts.string(), source, "null"));
  if (!cannot_run_here(recorded.requests).empty()) return {};
  for (const extension_request& one : recorded.requests)
    QUERN_CHECK(with->build(one));
  return {};
}

base::expected<std::vector<extension_request>> candidate_builds::requests_of(
    std::string_view source, recording_python& python, const module_sheet* sheet,
    const recording_limits& limits) {
  base::hasher of;
  of.add(source).add(sheet != nullptr ? sheet->init : std::string());
  if (sheet != nullptr) of.add(base::dump(arguments_json(*sheet)));
  const std::string name = base::to_hex(of.digest());
  {
    const std::lock_guard lock(guard_);
    if (const auto* known = learnt_.find(name)) return *known;
  }
  QUERN_TRY(const auto file, write_module("candidate.py", std::string(source)));
  QUERN_TRY(auto requests, recorded_extensions(python, file.path.string(), sheet, limits));
  const std::lock_guard lock(guard_);
  if (learnt_.find(name) == nullptr) (void)learnt_.add(name, requests);
  return requests;
}

base::status candidate_builds::build_ahead_for_gpu(std::string_view source,
                                                   recording_python& python,
                                                   const module_sheet* sheet,
                                                   const recording_limits& limits) {
  QUERN_TRY(auto* with, builder());
  QUERN_TRY(const auto requests, requests_of(source, python, sheet, limits));
  for (const extension_request& one : requests)
    QUERN_CHECK(with->build(one));
  return {};
}

}  // namespace quern::env
