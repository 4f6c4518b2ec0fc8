// A sandboxed program that uses CUDA in every way in which Quern's runners do, and prints each
// step: "NAME ok MS" or "NAME FAILED: why", and only the name of one that it does not survive.
// Descriptor 3 is a socket: one message lets it begin and brings a handle of device memory that the
// parent exported. Exit status 0: all steps that matter were done.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include "gpu_driver.hpp"

namespace {

using quern::test::cuda_driver;

constexpr int from_parent = 3;
constexpr unsigned block = 128;

// The message is the size of the memory; the descriptor rides on it. -1: none came.
int receive_handle(std::size_t& bytes) {
  std::uint64_t size = 0;
  iovec part{&size, sizeof size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (recvmsg(from_parent, &header, 0) <= 0) return -1;
  bytes = size;
  const cmsghdr* item = CMSG_FIRSTHDR(&header);
  if (item == nullptr || item->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
  return fd;
}

class steps {
 public:
  explicit steps(const cuda_driver& cuda) : cuda_(cuda) {}

  // Runs a step that returns 0 or an error number; nothing runs behind one that failed and matters.
  void must(const char* name, const std::function<int()>& what) {
    if (!failed_) failed_ = !run(name, what);
  }
  void may(const char* name, const std::function<int()>& what) {
    if (!failed_) run(name, what);
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  bool run(const char* name, const std::function<int()>& what) const {
    std::printf("%-26s ", name);
    std::fflush(stdout);
    const auto begin = std::chrono::steady_clock::now();
    const int error = what();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (error == 0)
      std::printf("ok %8.1f ms\n", took.count());
    else
      std::printf("FAILED: %s\n", cuda_.text(error).c_str());
    std::fflush(stdout);
    return error == 0;
  }

  const cuda_driver& cuda_;
  bool failed_ = false;
};

constexpr int wrong_content = 9999;

// Triples n words at `at` and looks whether they are what they should be.
int triple(const cuda_driver& cuda, void* kernel, cuda_driver::pointer at, std::uint32_t count,
           void* stream) {
  std::uint32_t n = count;
  void* arguments[] = {&at, &n};
  if (const int e = cuda.launch(kernel, (n + block - 1) / block, 1, 1, block, 1, 1, 0, stream,
                                arguments, nullptr);
      e != 0)
    return e;
  if (const int e = cuda.synchronize(); e != 0) return e;
  std::vector<std::uint32_t> words(count);
  if (const int e = cuda.to_host(words.data(), at, count * 4); e != 0) return e;
  for (std::uint32_t i = 0; i < count; ++i)
    if (words[i] != quern::test::shared_after(i)) return wrong_content;
  return 0;
}

int fill(const cuda_driver& cuda, cuda_driver::pointer at) {
  std::vector<std::uint32_t> words(quern::test::shared_words);
  for (std::uint32_t i = 0; i < words.size(); ++i)
    words[i] = quern::test::shared_before(i);
  return cuda.to_device(at, words.data(), words.size() * 4);
}

int use_shared(const cuda_driver& cuda, void* kernel, int handle_fd, std::size_t bytes) {
  unsigned long long handle = 0;
  if (const int e = cuda.import_handle(
          &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(handle_fd)), 1);
      e != 0)
    return e;
  quern::test::shared_memory memory;
  if (const int e = memory.map(cuda, handle, bytes); e != 0) return e;
  return triple(cuda, kernel, memory.at, quern::test::shared_words, nullptr);
}

}  // namespace

int main() {
  std::size_t shared_bytes = 0;
  const int handle_fd = receive_handle(shared_bytes);
  cuda_driver cuda;
  if (const std::string why = cuda.open(); !why.empty()) {
    std::printf("loading libcuda.so.1 FAILED: %s\n", why.c_str());
    return 2;
  }
  steps all(cuda);
  int count = 0, device = 0;
  void *context = nullptr, *module = nullptr, *kernel = nullptr, *stream = nullptr,
       *event = nullptr;
  cuda_driver::pointer words = 0;
  all.must("cuInit", [&] { return cuda.init(0); });
  all.must("counting devices", [&] {
    const int e = cuda.count(&count);
    return e != 0 || count > 0 ? e : 100;
  });
  all.must("taking device 0", [&] { return cuda.device(&device, 0); });
  all.must("making its context", [&] {
    const int e = cuda.retain(&context, device);
    return e != 0 ? e : cuda.set_current(context);
  });
  all.must("allocating device memory",
           [&] { return cuda.allocate(&words, quern::test::shared_words * 4); });
  all.must("copying to the device", [&] { return fill(cuda, words); });
  all.must("compiling PTX", [&] { return cuda.load(&module, quern::test::triple_ptx); });
  all.must("finding the kernel", [&] { return cuda.function(&kernel, module, "triple"); });
  all.must("running it",
           [&] { return triple(cuda, kernel, words, quern::test::shared_words, nullptr); });
  all.must("stream and event", [&] {
    int e = cuda.make_stream(&stream, 1);
    if (e == 0) e = cuda.make_event(&event, 0);
    if (e == 0) e = fill(cuda, words);
    if (e == 0) e = triple(cuda, kernel, words, quern::test::shared_words, stream);
    if (e == 0) e = cuda.record(event, stream);
    return e == 0 ? cuda.wait_event(event) : e;
  });
  if (handle_fd >= 0)
    all.must("memory of the parent",
             [&] { return use_shared(cuda, kernel, handle_fd, shared_bytes); });
  // What a candidate with host code may want; Quern itself does without.
  all.may("pinned host memory", [&] {
    void* host = nullptr;
    const int e = cuda.allocate_host(&host, 1 << 20, 0);
    if (e == 0) std::memset(host, 1, 1 << 20);
    return e;
  });
  all.may("managed memory", [&] {
    cuda_driver::pointer managed = 0;
    const int e = cuda.allocate_managed(&managed, 1 << 20, 1);
    if (e == 0) std::memset(reinterpret_cast<void*>(managed), 1, 1 << 20);
    return e;
  });
  all.may("memory pool", [&] {
    cuda_driver::pointer pooled = 0;
    const int e = cuda.allocate_async(&pooled, 1 << 20, stream);
    return e != 0 ? e : cuda.synchronize();
  });
  const bool done = !all.failed();
  std::printf("%s\n", done ? "all that matters was done" : "stopped");
  std::fflush(stdout);
  // Not by way of the driver's own destructors: how they end is not what is tested.
  _exit(done ? 0 : 1);
}
