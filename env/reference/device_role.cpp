// Role `reference-gpu` of program quern-torch.
#include "env/reference/device_role.hpp"

#include <cstddef>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include "base/log.hpp"
#include "env/reference/device_reference.hpp"
#include "env/runner/serve.hpp"

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
  std::vector<std::byte> buffer(device_reference::longest_message());
  runner::command_server server = answers.server();
  runner::serve_commands(server, socket, buffer);
  // Not by way of destructors: LibTorch's and the driver's wait for a device that may be lost, and
  // the memory goes with the process.
  _exit(0);
}

}  // namespace quern::env
