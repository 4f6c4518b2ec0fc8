#!/usr/bin/env python3
"""The canonical form of Python modules (env/lanes/pytorch/text/python_identity.hpp) by Python's own tokenize.

  python_identity.py --write          writes tests/golden/pytorch/identity.json; needs 3.12 or newer
  python_identity.py --check          computes again what this Python can read, and compares; exit 1 where it differs
  python_identity.py --compare PROGRAM PATH...
                                      compares quern_python_canonical with this Python on all .py files below the paths

A second run, and a run by another Python from 3.11 on, computes the same. Texts with an f-string that only 3.12 reads
are left out by 3.11, and their number is printed.
"""
import argparse
import ast
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tokenize
import warnings

sys.dont_write_bytecode = True
warnings.simplefilter("ignore")

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/pytorch/identity.json"
LAYOUT = {"__file__", "__cached__", "__loader__", "__spec__", "__code__", "inspect", "linecache", "tokenize", "traceback",
          "_getframe", "lineno", "f_lineno", "tb_lineno", "co_firstlineno", "co_lines", "co_linetable", "co_lnotab",
          "co_positions"}
WORD = re.compile(r"[A-Za-z0-9_\x80-\U0010ffff]+")
F_STRING = re.compile(r"(?i)(f|t|rf|fr|rt|tr)['\"]")
LEFT_OUT = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
# 3.12 and 3.13 have them for f-strings, 3.14 for t-strings, too.
OPENS = {getattr(tokenize, name) for name in ("FSTRING_START", "TSTRING_START") if hasattr(tokenize, name)}
CLOSES = {getattr(tokenize, name) for name in ("FSTRING_END", "TSTRING_END") if hasattr(tokenize, name)}


class Refused(Exception):
    """No text of UTF-8 that tokenize takes."""


def read(data):
    """The text that Python's compiler reads."""
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\0" in data:
        raise Refused("NUL")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if encoding not in ("utf-8", "utf-8-sig", "utf8"):
            raise Refused(encoding)
        return data.decode("utf-8-sig" if encoding == "utf-8-sig" else "utf-8")
    except (SyntaxError, UnicodeDecodeError) as error:
        raise Refused(str(error)) from error


def whole_tokens(text):
    """(type, text) of tokenize's tokens, f-strings put together as they are written."""
    lines = text.split("\n")

    def between(start, end):
        if start[0] == end[0]:
            return lines[start[0] - 1][start[1]:end[1]]
        return "\n".join([lines[start[0] - 1][start[1]:], *lines[start[0]:end[0] - 1], lines[end[0] - 1][:end[1]]])

    begins = []
    for one in tokenize.generate_tokens(io.StringIO(text).readline):
        if one.type in OPENS:
            begins.append(one.start)
        elif one.type in CLOSES:
            begin = begins.pop()
            if not begins:
                yield tokenize.STRING, between(begin, one.end)
        elif not begins:
            yield one.type, one.string


def by_tokens(text):
    """The canonical form, and whether the text sees its layout."""
    out, level, is_first, sees = [], 0, True, False
    for kind, word in whole_tokens(text):
        if kind in LEFT_OUT:
            continue
        if kind == tokenize.INDENT:
            level += 1
        elif kind == tokenize.DEDENT:
            level -= 1
        elif kind == tokenize.NEWLINE:
            if not is_first:
                out.append("\n")
            is_first = True
        elif kind == tokenize.ERRORTOKEN or (kind == tokenize.OP and word == "!"):
            raise Refused(f"token {word!r}")
        else:
            out += [" " * level if is_first else " ", word]
            is_first = False
            if kind == tokenize.NAME:
                sees |= word in LAYOUT
            elif kind == tokenize.STRING and F_STRING.match(word):
                sees |= not LAYOUT.isdisjoint(WORD.findall(word))
    return "".join(out), sees


def canonical(data):
    """(form, text as bytes); raises Refused where Python's tokenizer refuses `data`."""
    try:
        spelled, sees = by_tokens(read(data))
    except (tokenize.TokenError, SyntaxError) as error:
        raise Refused(str(error)) from error
    return ("bytes", data) if sees else ("tokens", spelled.encode())


def compiles(data):
    try:
        compile(data, "text", "exec", dont_inherit=True)
        return True
    except (SyntaxError, ValueError):
        return False


def same_program(data, spelled):
    """Whether both have one syntax tree, positions aside."""
    return ast.dump(ast.parse(data)) == ast.dump(ast.parse(spelled))


def golden(text):
    """The entry of one of python_texts.TEXTS; None: this Python is too old for it."""
    if sys.version_info < text.since:
        return None
    entry = {"name": text.name, "text": escape(text.data)}
    if text.valid is not None and compiles(text.data) != text.valid:
        raise Refused(f"compiles: {not text.valid}; python_texts.py says {text.valid}")
    form, spelled = canonical(text.data) if text.tokens else ("bytes", text.data)
    if form == "tokens" and not same_program(text.data, spelled):
        raise Refused("its canonical form is another program")
    return {**entry, "form": form, "canonical": escape(spelled)}


def escape(data):
    """Bytes as text for JSON: one character a byte, so that none is lost."""
    return data.decode("latin-1")


def goldens():
    """(text, entry) of all texts; ends the program where this Python cannot read one that it should."""
    from python_texts import TEXTS

    computed, wrong = [], []
    for text in TEXTS:
        try:
            computed.append((text, golden(text)))
        except Refused as error:
            wrong.append(f"python_identity: Python {sys.version.split()[0]}: {text.name}: {error}")
    if wrong:
        sys.exit("\n".join(wrong))
    return computed


def write():
    if sys.version_info < (3, 12):
        sys.exit("python_identity: 3.11 cannot read all texts: write with python3.12 or newer")
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    GOLDEN.write_text(json.dumps([entry for _, entry in goldens()], indent=1) + "\n")


def check():
    known = {entry["name"]: entry for entry in json.loads(GOLDEN.read_text())}
    computed = goldens()
    if list(known) != [text.name for text, _ in computed]:
        sys.exit(f"python_identity: {GOLDEN} has other texts than python_texts.py: run --write")
    for text, entry in computed:
        if entry is not None and entry != known[text.name]:
            sys.exit(f"python_identity: {text.name}: computed {entry}, the file has {known[text.name]}")
    older = sum(entry is None for _, entry in computed)
    print(f"python_identity: Python {sys.version.split()[0]}: {len(computed) - older} texts agree, {older} are of a newer Python")
    return len(computed) - older


def files_below(paths):
    for path in paths:
        if path.is_file():
            yield path
            continue
        for folder, _, names in os.walk(path):
            yield from (pathlib.Path(folder) / name for name in sorted(names) if name.endswith(".py"))


def compare(program, paths):
    count = dict.fromkeys(("agree", "layout", "encoding", "newer", "refused"), 0)
    differ = []
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        for path in files_below(paths):
            child.stdin.write(os.fsencode(path) + b"\n")
            child.stdin.flush()
            kind, size = child.stdout.readline().decode().split()
            outcome = compare_one(path.read_bytes(), kind, child.stdout.read(int(size)))
            if outcome:
                count[outcome] += 1
            else:
                differ.append(path)
        child.stdin.close()
    for path in differ:
        print(f"differs: {path}")
    print(f"Python {sys.version.split()[0]}: {count['agree'] + count['layout']} agree (of these {count['layout']} see their "
          f"layout), {count['encoding']} are in another encoding, {count['newer']} compile and tokenize of this Python "
          f"cannot read them, {count['refused']} are no Python, {len(differ)} differ")
    return not differ


def compare_one(data, kind, ours):
    """What a file counts as; None: it differs."""
    try:
        text = read(data)
    except Refused:
        return None if kind != "bytes" else "encoding" if compiles(data) else "refused"
    try:
        spelled, sees = by_tokens(text)
    except (Refused, tokenize.TokenError, SyntaxError, SystemError):
        # tokenize of 3.11 takes no identifier with letters that its regular expressions do not know; that of 3.12 and
        # 3.13 fails by SystemError at some f-strings that go over several lines.
        return "refused" if not compiles(data) else "newer" if kind != "bytes" else None
    # tokenize of 3.11 takes some texts that no compiler takes.
    if not compiles(data):
        return "refused"
    agrees = (kind, ours) == ("layout" if sees else "tokens", spelled.encode())
    return None if not agrees or not same_program(data, ours) else "layout" if sees else "agree"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--compare", metavar="PROGRAM")
    parser.add_argument("paths", nargs="*", type=pathlib.Path)
    asked = parser.parse_args()
    if asked.write:
        write()
    elif asked.compare:
        sys.exit(0 if compare(asked.compare, asked.paths) else 1)
    elif asked.check:
        sys.exit(0 if check() else 1)
    else:
        parser.error("one of --write, --check, --compare is needed")


if __name__ == "__main__":
    main()
