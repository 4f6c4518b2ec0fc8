# Golden conversations: what Jinja makes of the chat templates, and the ids of the result.
import json
import os
import pathlib
import re

import jinja2
from tokenizers import Tokenizer

CONVERSATIONS = [
    [("user", "Hi")],
    [("system", "Be brief."), ("user", " a <|im_end|> b<|eot_id|> \n"), ("assistant", "yes"), ("user", "more")],
    [("user", "q"), ("assistant", "<think>\nhm\n\n</think>\n\nanswer"), ("user", "again")],
    [("user", "q"), ("assistant", "<think>\nhm\n</think>\n\nanswer")],
    [("user", "q"), ("assistant", "plain")],
    [("user", "\u3000 caf\u00e9\n\n\x1f"), ("assistant", "</think>x</think>\n\ny"), ("user", "2")],
    [("user", "q"), ("assistant", "<think>a</think>call"), ("user", "<tool_response>1</tool_response>"), ("assistant", "b"), ("user", "<tool_response>2</tool_response>")],
]
TOKENIZER = {"chatml": "qwen2", "llama3": "llama3"}


def own_templates(root):
    """The template texts that policy/text/chat.cpp writes and knows, read from there so that there is one copy."""
    source = (root / "policy" / "text" / "chat.cpp").read_text()
    templates = {}
    for name in TOKENIZER:
        literal = re.search(rf"{name}_text =(.*?);\n", source, re.S).group(1)
        templates[name] = "".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', literal))
    return templates


def published_templates():
    """chat_template texts of published models (qwen2.jinja, qwen3.jinja) from a folder of one's own: they are not ours to ship."""
    folder = os.environ.get("QUERN_CHAT_TEMPLATES")
    return {file.stem: file.read_text() for file in sorted(pathlib.Path(folder).glob("qwen*.jinja"))} if folder else {}


def make_chat(root, golden):
    file = golden / "chat.json"
    conversations = [[{"role": role, "content": content} for role, content in talk] for talk in CONVERSATIONS]
    texts = json.loads(file.read_text())["texts"] if file.exists() else {}
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)  # as transformers sets it up
    templates = own_templates(root) | published_templates()
    for name, source in templates.items():
        template = environment.from_string(source)
        texts[name] = [[template.render(messages=talk, add_generation_prompt=prompt) for prompt in (False, True)] for talk in conversations]
    ids = {}
    for name, kind in TOKENIZER.items():
        tokenizer = Tokenizer.from_file(str(golden / "tokenizers" / kind / "tokenizer.json"))
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
        # None where the content looks like a special token: there Quern differs on purpose.
        safe = [not any(token in message["content"] for message in talk for token in special) for talk in conversations]
        ids[name] = [tokenizer.encode(text[1], add_special_tokens=False).ids if fine else None for text, fine in zip(texts[name], safe)]
    file.write_text(json.dumps({"conversations": conversations, "texts": texts, "ids": ids}, indent=1) + "\n")
    print(f"goldens: {len(conversations)} conversations in {', '.join(texts)}")
