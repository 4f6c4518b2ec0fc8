// The process in which kernels run on a GPU.
#include "env/runner/gpu_main.hpp"

#include <array>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/gpu/check_layer.hpp"
#include "env/runner/call_words.hpp"
#include "env/runner/channel.hpp"
#include "env/runner/file_lock.hpp"
#include "env/runner/gpu_lock.hpp"
#include "env/runner/gpu_protocol.hpp"
#include "env/runner/serve.hpp"
#include "env/runner/window_library.hpp"

namespace quern::env::runner {
namespace {

/// A file that came with a question, mapped while the question is answered.
class mapped_file {
 public:
  explicit mapped_file(int fd) {
    struct stat info {};
    if (fd < 0 || fstat(fd, &info) != 0 || info.st_size <= 0) return;
    void* got =
        mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (got == MAP_FAILED) return;
    data_ = static_cast<const std::byte*>(got);
    bytes_ = static_cast<std::size_t>(info.st_size);
  }
  ~mapped_file() {
    if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), bytes_);
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  /// Null where the range is not inside the file.
  const std::byte* at(std::uint64_t offset, std::uint64_t bytes) const {
    if (data_ == nullptr || offset > bytes_ || bytes > bytes_ - offset) return nullptr;
    return data_ + offset;
  }

 private:
  const std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class gpu_runner {
 public:
  /// `problem`: why the library cannot be used; null where it can.
  gpu_runner(const window_library& library, const char* problem)
      : library_(library), problem_(problem) {}

  /// Nothing can be done before the device is open, and nothing at all without the library.
  const char* refuses(command what) const;

  reply open(const question& asked, const gpu_open_request& r);
  reply import(const question& asked, const gpu_import_request& r);
  reply load(const question& asked, const gpu_load_request& r);
  reply lock(const question& asked, const gpu_lock_request& r);
  reply program(const question& asked, const gpu_program_request& r);
  reply tensors(const question& asked, const gpu_tensors_request& r);
  reply call(const question& asked, const gpu_call_request& r);
  reply workspace(const question& asked, const call_plan& p);
  reply run(const question& asked);
  reply drop(const question& asked);

 private:
  /// The reply to a question whose answer is the library's.
  reply answer(const question& asked, std::int32_t result, std::uint64_t value) const {
    if (result == 0) return asked.done(value);
    reply r = asked.failed(library_.problem(window_));
    r.why = static_cast<cause>(library_.cause(window_));
    return r;
  }
  reply load_library(const question& asked, bool loads_more);
  std::int32_t run_by_hand(const gpu_window_request& r, std::uint32_t* ns);

  const window_library& library_;
  const char* problem_;
  quern_window* window_ = nullptr;
  bool device_only_ = true;
  void* kernel_ = nullptr;
  void* workspace_bytes_ = nullptr;
  int object_ = -1;  ///< the candidate's shared object: a memory file that nobody can change
  gpu_call_request call_;
};

const char* gpu_runner::refuses(command what) const {
  if (problem_ != nullptr) return problem_;
  return window_ == nullptr && what != command::gpu_open ? "no device was opened" : nullptr;
}

reply gpu_runner::open(const question& asked, const gpu_open_request& r) {
  if (window_ != nullptr) return asked.unusable();
  std::array<char, 400> problem{};
  const auto room = static_cast<std::int32_t>(problem.size());
  const bool begin_alone = r.stage == gpu_open_stage::driver;
  if ((begin_alone ? library_.driver(problem.data(), room)
                   : library_.open(r.device, 1, &window_, problem.data(), room)) != 0)
    return asked.failed(problem.data());
  if (r.stage == gpu_open_stage::warm) return answer(asked, library_.warm_up(window_), 0);
  return asked.done();
}

reply not_locked(const question& asked, int error) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "the process cannot be locked before a candidate: %s",
                std::strerror(error));
  return asked.failed(text.data());
}

/// A copy that nobody can change any more: the loader maps it without copying, so whoever wrote the
/// file would write the code. -1 with errno.
int sealed_copy(int fd) {
  const int own = memfd_create("kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  struct stat info {};
  if (own < 0 || fstat(fd, &info) != 0) return -1;
  off_t at = 0;
  while (at < info.st_size) {
    std::array<char, 65536> part;
    const ssize_t got = pread(fd, part.data(), part.size(), at);
    if (got <= 0 || write(own, part.data(), static_cast<std::size_t>(got)) != got) return -1;
    at += got;
  }
  const int sealed =
      is_on(check_layer::seal)
          ? fcntl(own, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)
          : 0;
  return sealed == 0 ? own : -1;
}

reply gpu_runner::lock(const question& asked, const gpu_lock_request& r) {
  if (object_ >= 0) return asked.failed("the process is locked for another candidate");
  // The artefact's file is another user's: what cannot be opened again by its name is copied. The
  // lock takes memory files away.
  object_ = sealed_copy(asked.descriptor);
  if (object_ < 0) return asked.failed("no memory for the shared object");
  const int files = is_on(check_layer::files) ? lock_files(r.required != 0) : 0;
  if (files != 0) return not_locked(asked, files);
  const int calls = is_on(check_layer::filter) ? lock_down(gpu_lock::before_loading) : 0;
  if (calls != 0) return not_locked(asked, calls);
  return asked.done();
}

reply gpu_runner::load_library(const question& asked, bool loads_more) {
  if (object_ < 0) return asked.failed("the process is not locked for a candidate");
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", object_);
  void* library = dlopen(path.data(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return asked.failed(dlerror());
  const bool lock_memory = !loads_more && is_on(check_layer::executable);
  if (const int refused = lock_memory ? lock_down(gpu_lock::before_calling) : 0; refused != 0)
    return not_locked(asked, refused);
  kernel_ = dlsym(library, "kernel");
  if (kernel_ == nullptr)
    return asked.failed("the candidate does not define extern \"C\" void kernel(...)");
  workspace_bytes_ = dlsym(library, "workspace_bytes");
  device_only_ = false;
  return asked.done(workspace_bytes_ != nullptr ? 1 : 0);
}

reply gpu_runner::load(const question& asked, const gpu_load_request& r) {
  if (r.bytes == 0) return load_library(asked, r.loads_libraries != 0);
  if (r.names > QUERN_MOST_KERNELS || r.text.back() != 0)
    return asked.failed("too many kernels, or names without an end");
  const mapped_file file(asked.descriptor);
  const std::byte* code = file.at(r.offset, r.bytes);
  if (code == nullptr) return asked.failed("no device code came");
  std::array<const char*, QUERN_MOST_KERNELS> names{};
  const char* at = r.text.data();
  const char* const end = at + r.text.size();
  for (std::uint32_t i = 0; i < r.names; ++i) {
    if (at >= end) return asked.failed("fewer names than kernels");
    names[i] = at;
    at += std::strlen(at) + 1;
  }
  device_only_ = true;
  return answer(asked,
                library_.load(window_, code, names.data(), static_cast<std::int32_t>(r.names)), 0);
}

reply gpu_runner::program(const question& asked, const gpu_program_request& r) {
  const mapped_file file(asked.descriptor);
  const std::uint64_t steps = std::uint64_t{r.steps} * sizeof(quern_step);
  const std::uint64_t parameters = std::uint64_t{r.parameters} * sizeof(quern_parameter);
  const std::byte* first = file.at(0, steps + parameters);
  if (first == nullptr && steps + parameters != 0) return asked.failed("no program came");
  return answer(asked,
                library_.program(window_, reinterpret_cast<const quern_step*>(first),
                                 static_cast<std::int32_t>(r.steps),
                                 reinterpret_cast<const quern_parameter*>(first + steps),
                                 static_cast<std::int32_t>(r.parameters)),
                0);
}

reply gpu_runner::tensors(const question& asked, const gpu_tensors_request& r) {
  const mapped_file file(asked.descriptor);
  const std::byte* what = file.at(0, sizeof(quern_tensors));
  if (what == nullptr) return asked.failed("no tensors came");
  return answer(
      asked, library_.tensors(window_, reinterpret_cast<const quern_tensors*>(what), r.slots), 0);
}

/// The host-entry form: the candidate's own function between the events of every call.
std::int32_t gpu_runner::run_by_hand(const gpu_window_request& r, std::uint32_t* ns) {
  const std::size_t tensors = std::size_t{call_.inputs} + call_.outputs;
  words a{};
  std::size_t n = tensors;
  for (std::size_t i = 0; i < call_.sizes; ++i)
    a[n++] = static_cast<std::uint64_t>(call_.size_values[i]);
  a[n++] = call_.has_workspace != 0
               ? library_.address(window_, QUERN_WORKSPACE) + call_.workspace_offset
               : 0;
  a[n++] = library_.stream(window_);
  if (library_.begin(window_, &r.settings) != 0) return -1;
  for (std::int32_t i = 0; i < r.count; ++i) {
    const auto& order = r.orders[static_cast<std::size_t>(i)];
    for (std::size_t t = 0; t < tensors; ++t) {
      const auto& place = call_.tensors[t];
      a[t] = library_.address(window_, static_cast<std::int32_t>(place.file)) + place.offset +
             static_cast<std::uint64_t>(order.slot) * place.stride;
    }
    bool queued = library_.before_call(window_, &order) == 0;
    if (queued) {
      word_calls[n](kernel_, a);
      queued = library_.after_call(window_) == 0;
    }
    if (!queued) {
      library_.abandon(window_);
      return -1;
    }
  }
  std::int32_t got = 0;
  return library_.end(window_, ns, r.count, &got);
}

reply gpu_runner::run(const question& asked) {
  static gpu_window_request r;
  std::memcpy(&r, asked.body.data(), asked.body.size());
  if (r.count < 0 || static_cast<std::size_t>(r.count) > max_window_calls ||
      asked.body.size() != gpu_window_request::bytes_for(static_cast<std::size_t>(r.count)))
    return asked.failed("a window out of bounds");
  std::array<std::uint32_t, max_window_calls> ns{};
  const std::int32_t result =
      device_only_ ? library_.run(window_, &r.settings, r.orders.data(), r.count, ns.data())
                   : run_by_hand(r, ns.data());
  reply answered = answer(asked, result, static_cast<std::uint64_t>(r.count));
  if (result != 0) return answered;
  const quern_window_clocks clocks = library_.clocks(window_);
  std::memcpy(answered.text.data(), ns.data(), static_cast<std::size_t>(r.count) * sizeof ns[0]);
  std::memcpy(answered.text.data() + window_clocks_at, &clocks, sizeof clocks);
  return answered;
}

reply gpu_runner::import(const question& asked, const gpu_import_request& r) {
  const std::int32_t result =
      library_.import(window_, r.region, asked.descriptor, r.bytes, r.hint, r.writable_hint);
  return answer(asked, result, library_.address(window_, r.region));
}

reply gpu_runner::call(const question& asked, const gpu_call_request& r) {
  if (kernel_ == nullptr || r.sizes > max_sizes || std::size_t{r.inputs} + r.outputs > max_tensors)
    return asked.unusable();
  call_ = r;
  return asked.done();
}

reply gpu_runner::workspace(const question& asked, const call_plan& p) {
  if (p.sizes > max_sizes) return asked.unusable();
  if (workspace_bytes_ == nullptr) return asked.done();
  return asked.done(
      static_cast<std::uint64_t>(size_questions[p.sizes](workspace_bytes_, p.size_values)));
}

reply gpu_runner::drop(const question& asked) {
  for (std::int32_t region = 0; region < QUERN_REGIONS; ++region)
    if (library_.drop(window_, region) != 0) return answer(asked, -1, 0);
  return answer(asked, library_.unload(window_), 0);
}

constexpr std::array gpu_commands{
    handled_by<command::gpu_window, &gpu_runner::run>(),
    handled_by<command::gpu_open, &gpu_runner::open>(),
    handled_by<command::gpu_import, &gpu_runner::import>(),
    handled_by<command::gpu_lock, &gpu_runner::lock>(),
    handled_by<command::gpu_load, &gpu_runner::load>(),
    handled_by<command::gpu_tensors, &gpu_runner::tensors>(),
    handled_by<command::gpu_program, &gpu_runner::program>(),
    handled_by<command::gpu_call, &gpu_runner::call>(),
    handled_by<command::workspace, &gpu_runner::workspace>(),
    handled_by<command::gpu_drop, &gpu_runner::drop>(),
};

}  // namespace

int serve_gpu(const char* path) {
  window_library library;
  const char* problem = library.load_from(path);
  alignas(64) static std::array<std::byte, longest_message(gpu_commands)> buffer;
  static gpu_runner runner(library, problem);
  command_server server{.handlers = gpu_commands,
                        .runner = &runner,
                        .refuses =
                            [](const void* self, command what, outcome& /*how*/) {
                              return static_cast<const gpu_runner*>(self)->refuses(what);
                            },
                        .awake_behind = &awake_behind};
  return serve_commands(server, socket_fd, buffer);
}

}  // namespace quern::env::runner
