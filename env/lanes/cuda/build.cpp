// From the text of a candidate of lane `cuda` to what runs.
#include "env/lanes/cuda/build.hpp"

#include <algorithm>

#include <fcntl.h>

#include "env/gpu/dynamic_section.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/screen/canonical.hpp"
#include "env/screen/lexer.hpp"
#include "env/tensor_task/prototype.hpp"

namespace quern::env {
namespace {

constexpr std::size_t most_artefact_bytes = 64 << 20;

build_result stop(build_result r, verdict_kind kind, std::string reason, std::string detail) {
  r.outcome = {kind, std::move(reason), std::move(detail), std::nullopt};
  return r;
}

/// Symbols of the plan's kernels, in its order.
base::status find_symbols(built_candidate& b) {
  for (const auto& name : b.plan->kernel_names()) {
    const auto at = std::find_if(b.code.kernels.begin(), b.code.kernels.end(),
                                 [&](const device_kernel& k) { return k.name == name; });
    if (at == b.code.kernels.end())
      return base::fail(base::errc::corrupt, "the artefact has no kernel {}", name);
    b.symbols.push_back(at->symbol);
  }
  return {};
}

/// Whether a name stands in the tables of the code: what kernels call of the driver stands there.
bool names_symbol(std::string_view code, std::string_view name) {
  const std::string wanted = '\0' + std::string(name) + '\0';
  return code.find(wanted) != std::string_view::npos;
}

/// Whether the loader would load a vendor library for it. A name that stands in its data means
/// nothing: what it asks of the loader does.
bool needs_vendor_library(std::string_view artefact) {
  constexpr std::string_view libraries[] = {"libcublas.so", "libcublasLt.so", "libcudnn.so"};
  const auto needed = read_dynamic_section(artefact).needed;
  return std::any_of(needed.begin(), needed.end(), [&](std::string_view name) {
    return std::any_of(std::begin(libraries), std::end(libraries),
                       [&](std::string_view library) { return name.starts_with(library); });
  });
}

base::status open_artefact(built_candidate& b, const cuda_policy& policy) {
  const auto& path = b.compiled.artefact;
  b.file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!b.file) return base::fail_errno(fmt::format("opening {}", path.string()));
  QUERN_TRY(const auto bytes, base::read_file(path, most_artefact_bytes));
  if (b.form == cuda_form::host_entry) {
    b.calls_libraries = policy.library_calls && needs_vendor_library(bytes);
    return {};
  }
  QUERN_TRY(b.code, read_device_code(bytes));
  const auto code = std::string_view(bytes).substr(b.code.offset, b.code.bytes);
  // For people only: code that cannot be read so may still run.
  if (auto resources = read_cubin(code)) b.resources = std::move(*resources);
  b.uses_device_heap = names_symbol(code, "malloc") || names_symbol(code, "free") ||
                       names_symbol(code, "__cuda_syscall_aligned_malloc");
  return find_symbols(b);
}

/// Headers of templates that are written for nvcc first: what NVRTC makes of them depends on their
/// version.
bool includes_templates(const std::string& source) {
  const auto tokens = lex_cpp(source);
  return std::any_of(tokens.begin(), tokens.end(), [](const token& t) {
    if (t.kind != token_kind::header) return false;
    const std::string_view name = std::string_view(t.text).substr(1);
    return name.starts_with("cub/") || name.starts_with("thrust/") || name.starts_with("cuda/") ||
           name.starts_with("cooperative_groups");
  });
}

bool begins_with_any(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](auto w) { return text.starts_with(w); });
}

/// Names of the runtime that make no stream and name none but the given one, by how they begin.
bool keeps_to_its_stream(const token& t) {
  const std::string_view name = t.text;
  if (t.kind == token_kind::string) return name.find("cu") == std::string_view::npos;
  if (t.kind != token_kind::identifier) return true;
  if (begins_with_any(name, {"dlopen", "dlsym", "dlvsym", "syscall", "cublas", "cudnn", "cufft"}))
    return false;
  const bool of_runtime = (begins_with_any(name, {"cuda", "__cuda"}) && name != "cuda") ||
                          (name.size() > 2 && name.starts_with("cu") && name[2] < 'a');
  return !of_runtime ||
         begins_with_any(name, {"cudaStream_t", "cudaError", "cudaSuccess", "cudaGetLastError",
                                "cudaPeekAtLastError", "cudaGetError", "cudaMemset", "cudaMemcpy",
                                "cudaMalloc", "cudaFree", "cudaFunc", "cudaOccupancy",
                                "cudaGetDevice", "cudaDeviceGetAttribute", "cudaDeviceProp",
                                "cudaDevAttr", "cudaLaunch", "cudaGetSymbol"});
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

cuda_compile_request request_for(const built_candidate& b, const task& what,
                                 const std::string& source, const std::string& architecture,
                                 const cuda_policy& policy) {
  cuda_compile_request request(b.form);
  request.architecture = architecture;
  if (b.plan) {
    request.source = b.plan->device_source();
    request.kernels = b.plan->kernel_names();
  } else {
    request.source = source;
    request.prototype = cuda_lane.entry(what) + ";\n" + cuda_lane.optional_entry(what) + ";\n";
    request.library_calls = policy.library_calls;
  }
  return request;
}

}  // namespace

work_queues queues_for(const std::string& source) {
  // A name that is pasted together is nobody's to read.
  if (sees_layout(source)) return work_queues::all;
  const auto tokens = lex_cpp(source);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool cast = tokens[i].text == "cudaStream_t" && i + 1 < tokens.size() &&
                      tokens[i + 1].kind != token_kind::identifier;
    if (cast || !keeps_to_its_stream(tokens[i])) return work_queues::all;
  }
  return work_queues::one;
}

base::status admit_host_entry(layer_set layers, bool required) {
  host_facts facts = probe_host();
  facts.available = layers;
  return admit(facts, required ? sandbox_mode::required : sandbox_mode::best_effort,
               sandboxed_code::host_code_on_gpu);
}

build_result build_candidate(cuda_compiler& with, shared_compilation& shared, const task& what,
                             const std::string& source, const std::string& architecture,
                             const cuda_policy& policy) {
  build_result r;
  built_candidate b;
  if (policy.as_host_entry) {
    r.no_plan = "judged as host-entry, as was asked for";
  } else if (auto plan = parse_launch_plan(source, signature_of(what))) {
    b.plan = std::move(*plan);
  } else {
    r.no_plan = to_string(plan.error());
  }
  if (!b.plan) {
    if (!policy.host_entry)
      return stop(std::move(r), verdict_kind::rejected_static, "host_entry",
                  "only the device-only form is allowed here (policy: host_entry is off), and this "
                  "has no launch plan: " +
                      r.no_plan);
    b.form = cuda_form::host_entry;
  }
  const auto compile = [&] {
    const auto request = request_for(b, what, source, architecture, policy);
    return shared.once(with.key_of(request), [&] { return with.compile(request); });
  };
  auto built = compile();
  if (built && built->outcome == compile_result::kind::error && b.plan && policy.host_entry &&
      with.can(cuda_form::host_entry) && includes_templates(source)) {
    r.no_plan = "NVRTC does not compile its headers (" + first_line(built->text) +
                "): built by nvcc, as host-entry";
    b.plan.reset();
    b.form = cuda_form::host_entry;
    built = compile();
  }
  if (!built) return stop(std::move(r), verdict_kind::infra_error, "", built.error().message);
  b.compiled = *built;
  r.compiled = std::move(*built);
  if (b.compiled.outcome == compile_result::kind::timeout)
    return stop(std::move(r), verdict_kind::timeout, "compile",
                "the compiler did not finish in time");
  if (b.compiled.outcome != compile_result::kind::built)
    return stop(std::move(r), verdict_kind::compile_error, "", first_line(b.compiled.text));
  if (b.form == cuda_form::host_entry) b.queues = queues_for(source);
  if (auto opened = open_artefact(b, policy); !opened)
    return stop(std::move(r), verdict_kind::infra_error, "", opened.error().message);
  if (b.uses_device_heap)
    return stop(std::move(r), verdict_kind::compile_error, "",
                "a kernel calls malloc or free: the device's heap outlives the call and the "
                "candidate; use the workspace");
  r.built = std::move(b);
  return r;
}

}  // namespace quern::env
