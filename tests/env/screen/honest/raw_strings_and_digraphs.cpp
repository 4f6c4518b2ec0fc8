static const char note[] = R"x(a raw string with "quotes", // no comment, and )" inside)x";
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) <%
  int table<:2:> = <%2, 1'0%>;
  for (int64_t i = 0; i < n; ++i) y<:i:> = table<:0:> * x<:i:> + (not false and table[1] == 1'0);
  (void)note;
%>
