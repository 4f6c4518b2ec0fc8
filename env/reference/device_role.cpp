// Role `reference-gpu` of program quern-torch.
#include "env/reference/device_role.hpp"

#include <cstring>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/log.hpp"
#include "env/reference/device_reference.hpp"
#include "env/runner/channel.hpp"

namespace quern::env {

int reference_gpu_main(int argc, char** argv) {
  if (argc != 2) {
    base::log_error("reference-gpu", "one argument is needed: the path of libquern_cuda.so");
    return 2;
  }
  const int socket = runner::socket_fd;
  // Not getsockopt(): the sandbox has no calls for sockets beyond sending and receiving.
  struct stat info {};
  if (fstat(socket, &info) != 0 || !S_ISSOCK(info.st_mode)) {
    base::log_error("reference-gpu",
                    "nobody listens on descriptor {}: this role is started by an evaluator",
                    socket);
    return 2;
  }
  device_reference answers(argv[1]);
  std::vector<std::byte> buffer(sizeof(runner::header) + device_reference::longest_question);
  runner::header head;
  for (std::int64_t awake_ns = 0;;) {
    int fd = -1;
    const std::size_t got = runner::receive(socket, buffer, fd, awake_ns);
    const base::unique_fd descriptor(fd);
    // Not by way of destructors: LibTorch's and the driver's wait for a device that may be lost,
    // and the memory goes with the process.
    if (got < sizeof(runner::header)) _exit(0);
    std::memcpy(&head, buffer.data(), sizeof head);
    const auto body = std::span<const std::byte>(buffer).subspan(sizeof head, got - sizeof head);
    if (!runner::send_reply(socket, answers.answer(head.what, head.ticket, body, fd))) _exit(0);
    awake_ns = runner::awake_behind(head.what, body.size());
  }
}

}  // namespace quern::env
