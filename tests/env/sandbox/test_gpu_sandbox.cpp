// CUDA in the sandbox, on a host that has a GPU. Says in one run all that is needed to mend it:
// each step of a child, the system calls and files that it was refused, and which layer is at
// fault.
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/text.hpp"
#include "env/sandbox/gpu_access.hpp"
#include "gpu_driver.hpp"
#include "sandbox_fixture.hpp"
#include "support/gpu.hpp"
#include "syscall_trace.hpp"

using namespace quern;
using namespace quern::test;
using env::layer;

namespace {

// Device memory of this process, exported. One for all runs.
struct exported {
  cuda_driver cuda;
  shared_memory memory;
  base::unique_fd fd;
  std::string problem;

  exported() {
    problem = cuda.open();
    if (!problem.empty()) return;
    int device = 0;
    void* context = nullptr;
    cuda_memory_properties properties;
    std::size_t bytes = 0;
    unsigned long long handle = 0;
    int out = -1;
    const auto step = [&](const char* name, int error) {
      if (error != 0 && problem.empty()) problem = std::string(name) + ": " + cuda.text(error);
      return error == 0;
    };
    if (step("cuInit", cuda.init(0)) && step("cuDeviceGet", cuda.device(&device, 0)) &&
        step("making a context", cuda.retain(&context, device)) &&
        step("taking it", cuda.set_current(context)) &&
        step("asking the granularity", cuda.granularity(&bytes, &properties, 0)) &&
        step("cuMemCreate", cuda.create(&handle, bytes, &properties, 0)) &&
        step("mapping", memory.map(cuda, handle, bytes)) &&
        step("exporting", cuda.export_handle(&out, handle, 1, 0)))
      fd.reset(out);
  }

  void refill() const {
    std::vector<std::uint32_t> words(shared_words);
    for (std::uint32_t i = 0; i < words.size(); ++i)
      words[i] = shared_before(i);
    REQUIRE(cuda.to_device(memory.at, words.data(), words.size() * 4) == 0);
  }

  // Whether a child has tripled every word.
  [[nodiscard]] bool was_tripled() const {
    std::vector<std::uint32_t> words(shared_words);
    if (cuda.to_host(words.data(), memory.at, words.size() * 4) != 0) return false;
    for (std::uint32_t i = 0; i < words.size(); ++i)
      if (words[i] != shared_after(i)) return false;
    return true;
  }
};

void send_handle(int socket, int fd, std::uint64_t bytes) {
  iovec part{&bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* item = CMSG_FIRSTHDR(&header);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(item), &fd, sizeof fd);
  CHECK(sendmsg(socket, &header, MSG_NOSIGNAL) == sizeof bytes);
}

struct attempt {
  bool done = false;  // the child did all, and the parent sees what it wrote
  std::string end, text;
  env::layer_set layers;
  double ms = 0;
  trace_result trace;
};

attempt try_once(const exported& own, const env::gpu_access& access, env::layer_set allowed,
                 bool traced) {
  attempt result;
  auto children = make_spawner(allowed);
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const base::unique_fd ours(ends[0]);
  base::unique_fd theirs(ends[1]);
  env::child_spec spec;
  spec.argv = {deed_program()};
  spec.env = access.env;
  spec.read_only = env::system_library_folders();
  spec.out = env::child_stream::captured();
  spec.err = env::child_stream::captured();
  spec.keep = {{theirs.get(), 3}};
  spec.profile = env::syscall_profile::gpu;
  spec.gpu = access;
  spec.limits.wall_s = spec.limits.cpu_s = 40;
  spec.limits.memory_bytes = std::int64_t{8} << 30;
  spec.limits.file_bytes = std::int64_t{1} << 30;
  spec.limits.processes = 64;
  spec.limits.open_files = 512;
  own.refill();
  const auto begin = std::chrono::steady_clock::now();
  auto child = children->spawn(spec);
  if (!child) {
    result.end = child.error().message;
    return result;
  }
  theirs.reset();
  const auto go = [&] { send_handle(ours.get(), own.fd.get(), own.memory.bytes); };
  if (traced)
    result.trace = trace_child((*child)->pid(), go);
  else
    go();
  const auto end = (*child)->wait(60);
  REQUIRE(end.has_value());
  result.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  result.end = end->text();
  result.text = (*child)->captured_out() + (*child)->captured_err();
  result.layers = (*child)->layers();
  result.done = end->succeeded() && own.was_tripled();
  if (end->succeeded() && !result.done) result.text += "\nthe parent does not see what it wrote\n";
  return result;
}

std::string joined(const env::layer_set& layers) {
  std::string text;
  for (const auto& name : layers.names())
    text += (text.empty() ? "" : " ") + name;
  return text.empty() ? "none" : text;
}

// What a run was refused. A file that is not on the host either is no news.
void print_trace(const trace_result& trace) {
  if (!trace.problem.empty()) {
    std::printf("refused calls are not known: %s\n", trace.problem.c_str());
    return;
  }
  int absent = 0;
  std::printf("refused calls (tolerated unless a step failed):\n");
  for (const auto& call : trace.refused) {
    const bool path = call.path.starts_with('/');
    if (call.error == "ENOENT" && (!path || access(call.path.c_str(), F_OK) != 0)) {
      ++absent;
      continue;
    }
    std::printf("  %-28s %-8s %3d x  %s%s\n", call.name.c_str(), call.error.c_str(), call.times,
                call.path.c_str(), call.error == "ENOENT" ? "  (the host has it)" : "");
  }
  std::printf("  and %d names that the host has not either\n", absent);
  if (!trace.last_call.empty()) std::printf("being made at the end: %s\n", trace.last_call.c_str());
}

void print_attempt(const char* title, const attempt& one) {
  std::printf("-- %s: %s, %s, %.0f ms; layers: %s\n%s\n", title, one.done ? "works" : "FAILS",
              one.end.c_str(), one.ms, joined(one.layers).c_str(), one.text.c_str());
}

// The first step that failed, or else the last line.
std::string telling_line(const std::string& text) {
  std::string_view last;
  for (const auto line : base::split(text, '\n')) {
    if (contains(line, "FAILED")) return std::string(line);
    if (!line.empty()) last = line;
  }
  return std::string(last);
}

// Each layer off alone, then all of them.
void find_the_layer(const exported& own, const env::gpu_access& access) {
  std::printf("== which layer is at fault\n");
  for (int i = -1; i < env::layer_count; ++i) {
    env::layer_set allowed = i < 0 ? env::layer_set() : env::layer_set::all();
    std::string title = "no layer at all";
    if (i >= 0) {
      const auto which = static_cast<layer>(i);
      if (!env::probe_host().available.has(which)) continue;
      allowed.remove(which);
      title = "without " + std::string(env::name_of(which));
    }
    const attempt one = try_once(own, access, allowed, false);
    std::printf("%-24s %s  %s; %s\n", title.c_str(), one.done ? "works" : "FAILS", one.end.c_str(),
                telling_line(one.text).c_str());
    std::fflush(stdout);
  }
  // Two at a time, for faults that hide each other.
  std::string pairs;
  for (int i = 0; i < env::layer_count; ++i)
    for (int j = 0; j < i; ++j) {
      env::layer_set allowed = env::layer_set::all();
      allowed.remove(static_cast<layer>(i));
      allowed.remove(static_cast<layer>(j));
      if (!try_once(own, access, allowed, false).done) continue;
      pairs += " " + std::string(env::name_of(static_cast<layer>(j))) + "+" +
               std::string(env::name_of(static_cast<layer>(i)));
    }
  std::printf("works without any of these pairs:%s\n", pairs.empty() ? " none" : pairs.c_str());
  env::layer_set unlocked = env::layer_set::all();
  unlocked.remove(layer::landlock);
  const attempt free_files = try_once(own, access, unlocked, true);
  print_attempt("traced without landlock", free_files);
  print_trace(free_files.trace);
  // With the filter off, what it would have refused is in the trace of what is done.
  env::layer_set unfiltered = env::layer_set::all();
  unfiltered.remove(layer::seccomp);
  const attempt open = try_once(own, access, unfiltered, true);
  print_attempt("traced without seccomp", open);
  print_trace(open.trace);
}

bool worked(const std::string& text, std::string_view step) {
  for (const auto line : base::split(text, '\n'))
    if (line.starts_with(step)) return contains(line, " ok ");
  return false;
}

void print_host(const env::gpu_access& access) {
  utsname name{};
  uname(&name);
  std::printf("kernel %s, uid %u\n%s", name.release, geteuid(),
              env::describe(env::probe_host()).c_str());
  std::printf("devices:");
  for (const auto& path : access.devices)
    std::printf(" %s", path.c_str());
  std::printf("\nread-only:");
  for (const auto& path : access.read_only)
    std::printf(" %s", path.c_str());
  std::printf("\nenvironment:");
  for (const auto& item : access.env)
    std::printf(" %s", item.c_str());
  std::printf("\n");
}

}  // namespace

TEST_CASE("CUDA works in the sandbox, with memory that the parent shares") {
  const auto access = env::gpu_sandbox_paths();
  if (!go_on_with_gpu(access.has_value(), access ? "" : access.error().message)) return;
  const auto& facts = env::probe_host();  // forks: before this process has a context
  CHECK(facts.available.has(layer::seccomp));
  print_host(*access);
  const exported own;
  REQUIRE_MESSAGE(own.problem.empty(), own.problem);

  const attempt first = try_once(own, *access, env::layer_set::all(), false);
  print_attempt("all layers", first);
  // Again with its refusals written down: what works may still be refused something that costs
  // time.
  const attempt traced = try_once(own, *access, env::layer_set::all(), true);
  print_attempt("all layers, traced", traced);
  print_trace(traced.trace);
  std::fflush(stdout);
  if (!first.done) find_the_layer(own, *access);
  CHECK(first.done);
  for (const std::string optional : {"pinned host memory", "managed memory", "memory pool"})
    CHECK_MESSAGE(worked(first.text, optional), optional);
}

TEST_CASE("a child with one GPU sees one") {
  const auto access = env::gpu_sandbox_paths();
  if (!go_on_with_gpu(access.has_value(), access ? "" : access.error().message)) return;
  std::error_code error;
  const std::filesystem::path gpus = "/proc/driver/nvidia/gpus";
  std::filesystem::directory_iterator folder(gpus, error);
  if (error || folder == std::filesystem::directory_iterator())
    return skip("this driver does not list its GPUs in /proc/driver/nvidia/gpus");
  const auto one = env::gpu_sandbox_paths(folder->path().filename().string());
  REQUIRE_MESSAGE(one.has_value(), (one ? "" : one.error().message));
  const auto nodes = [](const env::gpu_access& of) {
    return std::count_if(of.devices.begin(), of.devices.end(), [](const std::string& path) {
      return path.size() > 11 && path.starts_with("/dev/nvidia") &&
             std::isdigit(static_cast<unsigned char>(path[11])) != 0;
    });
  };
  CHECK(nodes(*one) == 1);
  CHECK(nodes(*access) >= 1);
  CHECK_FALSE(env::gpu_sandbox_paths("ffff:ff:1f.7").has_value());
}
