// Defines something else.
extern "C" int64_t workspace_bytes(int64_t n) {
  return n;
}
