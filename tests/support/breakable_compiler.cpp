// A compiler for tests that stands in a folder `bin` and becomes the program that the link `real`
// beside that folder points to. While a file `broken` stands there, too, it fails on whatever it is
// to make an artefact of, with the words and the exit status of a linker that has no room. While a
// file `greedy` stands there, it leaves 14 MiB in its working folder before it becomes that
// program.
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

#include <unistd.h>

int main(int argc, char** argv) {
  const std::string own = argv[0];
  const std::string folder = own.substr(0, own.rfind("/bin/")) + "/";
  bool links = false;
  for (int i = 1; i < argc; ++i)
    links = links || std::strcmp(argv[i], "kernel.so") == 0;
  if (links && access((folder + "broken").c_str(), F_OK) == 0) {
    std::fprintf(stderr, "ld: final link failed: No space left on device\n");
    return 1;
  }
  if (links && access((folder + "greedy").c_str(), F_OK) == 0) {
    std::FILE* left = std::fopen("left", "w");
    const std::string block(14 << 20, 'x');
    if (left == nullptr || std::fwrite(block.data(), block.size(), 1, left) != 1 ||
        std::fclose(left) != 0)
      return 5;
  }
  char real[PATH_MAX] = {};
  if (readlink((folder + "real").c_str(), real, sizeof real - 1) <= 0) return 3;
  argv[0] = real;
  execv(real, argv);
  return 4;
}
