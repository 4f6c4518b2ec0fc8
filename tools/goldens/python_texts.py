# Texts of Python modules for python_identity.py: each rule of the canonical form, and each fault.
import typing


class Text(typing.NamedTuple):
    name: str
    data: bytes
    valid: object = True  # Python compiles it; None: some do
    tokens: bool = True  # it has a form by tokens, unless it sees its layout
    since: tuple = (3, 11)  # the first Python whose tokenize reads it


TEXTS = []


def text(name, source, **more):
    data = source if isinstance(source, bytes) else source.encode()
    TEXTS.append(Text(name, data, **more))


def refused(name, source, valid=False):
    text(name, source, valid=valid, tokens=False)


# Layout.
text("empty", "")
text("blank lines only", "\n  \n\t\n\f\n")
text("comments only", "# one\n   # two\n\n#three")
text("no line end at the end", "a = 1")
text("comment at the end without a line end", "a = 1\n# done")
text("blanks between tokens", "a=1\nb  =\t2 ;c=a+ b\nprint( a , b,c )\n")
text("blanks at line ends", "a = 1   \nb = 2\t\nif a:  \n  b = 3 \f \n")
text("comments at line ends", "a = 1  # one\nif a:  # two\n    # three\n    b = 2  # four\n        # five\n# six\nc = 3\n")
text("widths of indentation", "if a:\n b = 1\n if b:\n       c = 2\n       d = 3\n e = 4\nelse:\n        f = 5\n")
text("indentation by tabs", "if a:\n\tb = 1\n\tif b:\n\t\tc = 2\n\td = 3\n")
text("indentation by blanks and tabs", "if a:\n    if b:\n    \tc = 2\n    \td = 3\n    e = 4\n")
text("several levels back at once", "if a:\n  if b:\n    if c:\n      d = 1\ne = 2\n")
text("levels that are open at the end", "class A:\n  def f(self):\n    if self:\n      return 1")
text("form feeds", "a = 1\n\f\nb = 2\n\fif b:\n\f    c\f= 3\n  \f    d = 4\n")
text("lines joined by brackets", "a = [\n  1,\n\n  # two\n  2,\n]\nb = f(\n    a,\nc=3)\nd = {\n'x': (1,\n2)\n}\n")
text("lines joined by backslashes", "a = 1 + \\\n    2\nif a and \\\n  b:\n  c = \\\n1\nassert a, \\\n   'x'\n")
text("a backslash before an empty line", "a = 1 \\\n\nb = 2\n")
text("statements on one line", "a = 1; b = 2;\nif a: b = 3; c = 4\nclass A: pass\n")
text("CRLF", b"if a:\r\n    b = '''x\r\ny'''\r\n    c = 'p\\\r\nq'  # c\r\n\r\nd = (1,\r\n2)\r\n")
text("CR", b"if a:\r    b = '''x\ry'''\r    c = 1 \\\r + 2\rd = 3")
text("mixed line ends", b"a = 1\r\nb = 2\rc = 3\n\r\n\rd = 4\n")
text("byte order mark", b"\xef\xbb\xbfa = 1\n")
text("byte order mark and encoding comment", b"\xef\xbb\xbf# -*- coding: utf-8 -*-\na = '\xc3\xa9'\n")
text("encoding comment of UTF-8", b"#!/usr/bin/env python3\n# vim: set fileencoding=UTF_8 :\na = '\xc3\xa9'\n")
text("encoding comment under another name of UTF-8", "# coding=utf8\na = 1\n")
text("words like an encoding comment that are none", "a = 1\n# coding: latin-1\n# coding: nonsense\nb = 'coding: x'\n")
text("encoding comment behind a statement", "a = 1  # coding: latin-1\nb = 2\n")

# Names and numbers.
text("names", "a = _b = c1 = __d__ = A.b.c\nmatch = case = type = print\n")
text("names of other alphabets", "größe = σ = 变量 = ﬁ = 1\nfi = größe + σ\n")
text("keywords", "async def f():\n  async with a as b, c: await d\n  async for e in f: yield e\n"
     "lambda: (yield)\nnot a is not b not in c\n")
text("whole numbers", "a = 0, 00, 0_0, 1, 1_000, 0xFf, 0Xa_B, 0o17, 0O1_7, 0b1_01, 0B1, 0x_f, 123456789012345678901234567890\n")
text("real and imaginary numbers", "a = 1., .5, 1.5, 1e5, 1E+5, 1e-5, 1_0.0_1e1_0, 0., 0.0, 00.5, 09.5, 09e1, 1j, 1.J, .5j, 1e5j, 09j, 0e0\n")
text("numbers directly before words", "a = 1if b else 2\nc = [0x1for x in y]\nd = 1or 2\ne = 1and 2\nf = 1in g\n")
text("dots", "a = b . c\nd = 1 .real\ne = 1..real\nf = x[...]\nfrom . import g\nfrom ..h import i\nfrom .... import j\n")
text("operators", "a = b + c - d * e / f // g % h ** i @ j << k >> l & m | n ^ o\n"
     "a += b; a -= c; a *= d; a /= e; a //= f; a %= g; a **= h; a @= i; a <<= j; a >>= k; a &= l; a |= m; a ^= n\n"
     "a == b != c < d > e <= f >= g\n~a, -b, +c\n(a := b)\ndef f(a: int, /, *b, **c) -> None: ...\n@a.b\ndef g(): pass\nx[1:2, ::3]\n")
text("operators without blanks", "a=b**-c\nd=e<-f\ng=h>>-1\ni=-~j\nk=l[:-1]\nm=n[1::]\no=lambda*p,**q:r\ns=t*-u\nv=not-w\n")

# Strings.
text("quotes", "a = 'x' \"y\" '' \"\"\nb = '''p'q''r''' \"\"\"s\"t\"\"u\"\"\" '''''' \"\"\"\"\"\"\nc = 'it\\'s' \"\\\"\" '\\\\'\n")
text("prefixes", "a = r'\\d', R\"\\d\", b'x', B'y', br'\\z', Rb'\\w', u'v', U'u', bR'''\\q''', f'', F'', fr'', Rf''\n")
text("raw strings hide quotes", "a = r'\\''\nb = r\"\\\"\"\nc = r'''\\''''\n")
text("names before strings that are no prefix", "if a in'bc': print\nd = e if f else'g'\nh = i is not'j'\nreturn_ = 0\nlambda:'k'\n")
text("strings side by side", "a = ('x' # one\n  'y'\n\n  f'{z}' # two\n  'w')\n")
text("comments and blanks in strings", "a = '# no comment'\nb = '''\n# no comment   \n\n\t x\n'''\nc = \"a  b\"\n")
text("a backslash joins lines of a string", "a = 'x\\\ny'\nb = '\\\n\\\n'\nc = r'x\\\ny'\n")
text("docstrings", "'''Of the module.\n   Indented.\n'''\nclass A:\n    \"\"\"Of the class.\"\"\"\n    def f(self):\n        r'''Of the\n        function.'''\n")
text("an encoding comment in a docstring", "\n# one\n'''\n# -*- coding: latin-1 -*-\n'''\n")
text("strings of other alphabets", "a = 'é ﬁ \U0001f600'\nb = f'{a}\u2028ß'\n")
text("a NUL by its escape", "a = '\\0' '\\x00'\n")

# f-strings.
text("f-strings", "a = f'x'\nb = f'{x}'\nc = f'{x!r}' f\"{x:>10}\" f'{x!s:>{w}.{p}}'\nd = f'{{}}' f'{{{x}}}'\n")
text("f-strings with blanks in fields", "a = f'{ x }'\nb = f'{x = }' f'{x=!r:^20}'\nc = f'{x  +  y}'\n")
text("f-strings with quotes and brackets", "a = f'{x[\"y\"]}' f\"{d['k'](1, [2, {3: 4}])}\"\nb = f'{(lambda: 1)()}'\nc = f'{x != y}' f'{ {1: 2}[1] }'\n")
text("f-strings of three quotes", "a = f'''\n{x}\n  'y' \"z\" {\nw\n}'''\nc = f'''{\"a\"}' '''\n")
text("f-strings with escapes", "a = f'\\n{x}\\'\\\\{y}'\nb = f'\\N{BULLET}{x}\\N{EM DASH}'\nc = rf'\\d{x}\\{y}'\n")
text("f-strings with walrus and format", "a = f'{(x:=5)}' f'{x:=5}' f'{x:%H:%M}' f'{a::>3}'\n")
text("f-strings with their own quotes inside", "a = f'{x['y']}'\nb = f\"{f\"{f\"{1}\"}\"}\"\nc = f'{\"a\" + 'b'}'\n", since=(3, 12))
text("f-strings with comments and lines inside", "a = f'{\n  x  # a comment stays: it is in the token\n}'\nb = f'''{\n# one\nx}'''\n", since=(3, 12))
text("f-strings with backslashes inside", "a = f\"{'\\n'.join(x)}\"\nb = f'{'\\''}'\n", since=(3, 12))
text("a format with nested f-strings", "a = f'{x:{f'{w}'}}'\nb = f'{x:{'>'}{10}}'\n", since=(3, 12))

# What sees its layout.
text("__file__", "import os\n\nhere = os.path.dirname(__file__)  # of the module\n")
text("inspect", "import inspect\n\n\ndef f():\n    return inspect.currentframe().f_lineno\n")
text("a line number in an f-string", "a = f'{e.lineno}'  # x\n")
text("words for layout in plain strings and comments", "# inspect the __file__\na = 'inspect __file__ lineno'\n'''traceback'''\n")
text("names that only begin like one", "inspected = my_lineno = __file__s = 1\n")

# Faults.
refused("NUL", b"a = 1\0\n")
refused("NUL in a comment", b"# \0\na = 1\n")
refused("not UTF-8", b"a = '\xe9'\n")
refused("not UTF-8 in a comment", b"a = 1  # \xe9\n", valid=None)
refused("another encoding", b"# -*- coding: latin-1 -*-\na = '\xe9'\n", valid=True)
refused("another encoding in the second line", "#!/usr/bin/python\n# vim: fileencoding=cp1252 :\na = 1\n", valid=True)
refused("a surrogate", b"a = '\xed\xa0\x80'\n")
refused("an overlong form", b"a = '\xc0\xaf'\n")
refused("above 10FFFF", b"a = '\xf4\x90\x80\x80'\n")
refused("an unknown encoding", "# coding: nonsense\na = 1\n")
refused("two byte order marks", b"\xef\xbb\xbf\xef\xbb\xbfa = 1\n")
refused("a string that does not end", "a = 'x\nb = 2\n")
refused("a string of three quotes that does not end", "a = '''x\nb = 2\n")
refused("a string that ends in a backslash", "a = 'x\\")
refused("an f-string that does not end", "a = f'{x}\n")
refused("a field that does not end", "a = f'{x'\n")
refused("a brace that closes nothing", "a = f'}'\n")
refused("wrong brackets in a field", "a = f'{(x]}'\n")
refused("a bracket that is not closed", "a = (1,\nb = 2\n")
refused("a bracket that closes nothing", "a = 1)\n")
refused("a bracket that closes another", "a = (1]\n")
refused("a column that no line has", "if a:\n    b = 1\n  c = 2\n")
refused("tabs against blanks", "if a:\n        b = 1\n\tc = 2\n")
refused("a tab that is as wide as blanks", "if a:\n    if b:\n        c = 1\n\td = 2\n")
refused("a backslash before a comment", "a = 1 + \\ # x\n  2\n")
refused("a backslash at the end", "a = 1 + \\\n")
refused("a dollar", "a = $b\n")
refused("a question mark", "a?\n")
refused("a backquote", "a = `b`\n")
refused("a lone exclamation mark", "!ls\n")
refused("a vertical tab", "a =\v1\n")
refused("leading zeros", "a = 09\n")
refused("two underscores in a number", "a = 1__0\n")
refused("an underscore at the end of a number", "a = 1_\n")
refused("hexadecimal digits that are missing", "a = 0x\n")
refused("a digit that is not binary", "a = 0b12\n")
refused("a name directly behind a number", "a = 1x\n")
refused("an exponent without digits", "a = 1e+\n")
refused("too many levels", "".join(" " * i + "if a:\n" for i in range(101)) + " " * 101 + "b\n")
refused("too many brackets", "a = " + "(" * 201 + ")" * 201 + "\n")


# Whole modules.
from python_modules import MODULES  # noqa: E402

for name, source in MODULES.items():
    text(name, source)
