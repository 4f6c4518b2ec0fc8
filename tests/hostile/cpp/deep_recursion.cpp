// Runs out of stack.
static float dig(const float* x, int64_t depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return dig(x, depth + 1) + static_cast<float>(room[0]);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  y[0] = dig(x, n);
}
