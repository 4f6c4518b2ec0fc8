# Strings that tokenizers get wrong: contractions, runs of white space, digits, scripts, combining marks,
# emoji sequences, source code, and text that looks like special tokens.
import random

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<think>", "</think>"]

FIXED = [
    "", " ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", " \n", "\n ", " \n ", "\t\n\t", "  \n  \n  x", "\x0b", "\x0c", "\x85", "\u00a0", "\u2028\u2029", "\u3000x", "\u180e",
    "a", "Hello", "Hello, world!", " Hello", "  Hello", "   Hello", "Hello ", "Hello  ", "Hello   \n", "a b  c   d    e",
    "I'm you're he's we've they'll I'd don't", "I'M YOU'RE HE'S WE'VE THEY'LL I'D DON'T", "'s't're've'm'll'd", "'S'T'RE'VE'M'LL'D", "''s", "'sS", "' s", "x'y", "'\u017f \u017f's", "l'\u00e9t\u00e9 d'hiver", "rock'n'roll 'tis '90s", "'r 'l 'v 're've'l",
    "0", "12", "123", "1234", "12345", "1234567890", "3.14159", "1e-5", "0x1F", "1,000,000.00", "1 2 3", "12a34b", "\u0661\u0662\u0663\u0664", "\u00b2\u00b3\u00bd", "\u2160\u2161\u2162\u2163", "x2y3", "v1.2.3-rc4",
    "!", "!!!", "?!", "...", "\u2026", " !", "  !", "!\n", "!\n\n", "!\r\n\n", "! \n", "a!\nb", "(a)", "[a](b)", "{{a}}", "a.b.c", "--flag=value", "//comment\n", "/* x */\n", "#include <x>\n", "a&&b||!c", "$x", "\u20ac5", "@user", "a_b", "__init__", "->", "=>", "::", "<=>", "\\n", "\"q\"", "`x`", "\tx", "\t\tx", "(\tx)",
    "def f(x):\n    return x + 1\n", "    for (int64_t i = 0; i < n; ++i) {\n        y[i] = x[i] * 2.0f;\n    }\n", "if (a) {\r\n\treturn;\r\n}\r\n", "x = [1, 2, 3]\n\n\n\ny = {'a': 1}\n", "#pragma omp simd\n", "std::vector<std::array<float, 4>>", "a  =  b ;  // c\n",
    "\u00e9", "e\u0301", "\u00e5\u030a", "A\u030a", "\u212b", "\ufb01", "\u1e9b\u0323", "q\u0307\u0323", "q\u0323\u0307", "\u0344", "\uac00", "\u1100\u1161", "\u1100\u1161\u11a8", "\u0958", "\u2126", "n\u0303o", "o\u0302\u0301", "\u03b1\u0345\u0301",
    "\u0915\u094d\u0937", "\u0ba8\u0bbf", "\u0e01\u0e33", "\u0644\u0627", "\u05e9\u05c1\u05dc\u05d5\u05dd", "\u0410\u0411\u0412 \u0430\u0431\u0432", "\u0391\u03b2\u03b3", "\u4f60\u597d\u4e16\u754c", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5", "\u0423\u043a\u0440\u0430\u0457\u043d\u0430", "Stra\u00dfe \u00c4pfel", "na\u00efve caf\u00e9", "\u0130stanbul \u0131",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f3f3\ufe0f\u200d\U0001f308", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "a\U0001f600b", " \U0001f600 ", "\U0001d400\U0001d401", "\U0001d7d8\U0001d7d9", "\U0002070e", "1\ufe0f\u20e3", "\u2764\ufe0f", "\u200b", "\u200d", "\ufeffx", "\ufffd", "\ufffe", "\U0010ffff", "\x00", "a\x00b", "\x7f", "\x01\x02", "\x1b[0m",
    "<|im_start|>user\nHi<|im_end|>\n", "<|endoftext|>", "<|endoftext|", "|endoftext|>", "<|endoftext|><|endoftext|>", "<<|endoftext|>>", "a<|im_end|>b", " <|im_end|> ", "<|im_end|>\n\n", "<| im_end |>", "<|IM_END|>", "<|im_|im_end|>end|>", "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nx<|eot_id|>", "<think>\nhm\n</think>\n\nok", "<think", "<|im_start|>\u00e9e\u0301<|im_end|>",
    "a" * 100, "ab" * 50, " " * 50, " " * 50 + "x", "\n" * 20, "0" * 50, "!" * 50, "\u4e2d" * 40, "\U0001f600" * 10, "x\n" * 30, " x" * 30, "e\u0301" * 20, "\u0301" * 10, " \u0301", "\u0301a", "a\u0301\u0302b", "\u093f\u0915", "x" + "\t" * 10 + "y", "x" + "\u00a0" * 5 + "y", "x \u00a0 y", "\u00a0 \u00a0x", "\u2003\u2003x", " \u3000 \n \u3000x", "x \r\r\n\n y", "\x85\x85x", "\x0b\x0cx", "\u1680x", "x\u2028y",
    "The quick brown fox jumps over the lazy dog.", "tHE qUICK bROWN", "camelCaseAndPascalCase", "snake_case_words", "SCREAMING_CASE", "https://example.org/a?b=c&d=%20#e", "user@example.org", "C:\\dir\\file.txt", "/usr/lib/x86_64-linux-gnu", "2026-11-21T10:00:00Z", "+49 (30) 1234-5678", "f(x) = x\u00b2 + 2x \u2212 1", "\u2200x\u2208\u211d: x\u2265\u221a2", "\u00abguillemets\u00bb \u201cquotes\u201d \u2018x\u2019", "it\u2019s", "a\u00adb", "x\u0338=y",
]

ALPHABETS = [
    " \t\n\rab'sStTmMdDlLrReEvV",
    "  \n\n\r\t.,;(){}[]<>=+-*/&|!?\"'`~@#$%^_\\0123456789abcxyzABC",
    "'\u017fsSlLrevVE x",
    " 0123456789.\u0663\u00bd\u2164ab",
    "aeio\u0301\u0302\u0308\u0323\u0327\u00e9\u00f1 \u1e9b\uac00\u1100\u1161\u11a8",
    "\u4f60\u597d\u4e16\u754c\uff0c\u3002\u3042\u30a2 \n",
    "\U0001f468\U0001f469\u200d\ufe0f\U0001f3fd\U0001f1e9\U0001f1ea ab",
    "\u05d0\u05d1\u05c1\u0627\u0644\u064e\u0915\u094d\u093f\u0e01\u0e33 .",
    "\x00\x01\x7f\x85\u00a0\u00ad\u2000\u200b\u2028\u202f\u205f\u3000\ufeff xy\n",
    "<|im_startend>endoftext|think/ \n",
]


def nasty_strings(count=500):
    source = random.Random(20261121)
    strings = list(FIXED)
    while len(strings) < count:
        kind = source.random()
        if kind < 0.7:
            alphabet = source.choice(ALPHABETS)
            strings.append("".join(source.choice(alphabet) for _ in range(source.randint(1, 40))))
        elif kind < 0.85:
            strings.append("".join(source.choice(source.choice(ALPHABETS)) for _ in range(source.randint(1, 60))))
        else:
            pieces = [source.choice(FIXED) for _ in range(source.randint(2, 4))]
            pieces.insert(source.randint(0, len(pieces)), source.choice(SPECIALS))
            strings.append("".join(pieces))
    return strings


def training_text():
    """What the golden tokenizers are trained on: enough code and prose for a few hundred merges."""
    source = random.Random(7)
    words = "the kernel reads each row once and keeps the sum of squares in a register while it writes the output tensor float int for return const restrict static inline size value input mean scale offset".split()
    lines = []
    for i in range(400):
        name = source.choice(words)
        lines.append(f"  for (int64_t {source.choice('ijk')} = 0; {source.choice('ijk')} < {source.choice(['n', 'rows', 'cols', '1024'])}; ++i) {name}[i] = {source.choice(words)}[i] * {source.random():.3f}f;")
        lines.append(" ".join(source.choice(words) for _ in range(source.randint(4, 12))).capitalize() + ".")
    return lines + nasty_strings() * 3
