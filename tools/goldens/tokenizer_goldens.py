# Golden tokenizers, trained with the tokenizers package, and what it makes of 500 nasty strings.
import json
import random

from strings import SPECIALS, nasty_strings, training_text
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HEAD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = HEAD + r"\p{N}" + TAIL
LLAMA3 = HEAD + r"\p{N}{1,3}" + TAIL


def pre_tokenizer(pattern):
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(pattern, nfc, vocab_size):
    tokenizer = Tokenizer(models.BPE())
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizer(pattern)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(training_text(), trainer)
    return tokenizer


def added(content, special=True, normalized=False):
    return AddedToken(content, special=special, normalized=normalized)


def qwen2():
    tokenizer = train(QWEN2, nfc=True, vocab_size=560)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.add_special_tokens([added(t) for t in SPECIALS[:3]])
    tokenizer.add_tokens([added(t, special=False) for t in ("<think>", "</think>")])
    return json.loads(tokenizer.to_str())


def qwen2_legacy():
    """The same kind of tokenizer with merges as strings, and added tokens that are matched after normalisation."""
    tokenizer = train(QWEN2, nfc=True, vocab_size=420)
    tokenizer.add_special_tokens([added(t) for t in SPECIALS[:3]])
    tokenizer.add_tokens([added("n\u0303o", special=False, normalized=True), added("fox", special=False, normalized=True)])
    content = json.loads(tokenizer.to_str())
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    return content


def llama3():
    """No normaliser, digits in threes, and whole words in the vocabulary that no merge makes (ignore_merges)."""
    tokenizer = train(LLAMA3, nfc=False, vocab_size=520)
    content = json.loads(tokenizer.to_str())
    for word in ("\u0120lazy", "\u0120brown", "PascalCase", "123", "1234", "\u0120user", "'ll", "...", "Hello"):
        content["model"]["vocab"].setdefault(word, len(content["model"]["vocab"]))
    content["model"]["ignore_merges"] = True
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.add_special_tokens([added(t) for t in (SPECIALS[3], SPECIALS[0], *SPECIALS[4:7])])
    begin = "<|begin_of_text|>"
    template = processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1", special_tokens=[(begin, tokenizer.token_to_id(begin))])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False), template])
    return json.loads(tokenizer.to_str())


def expectations(content, strings):
    tokenizer = Tokenizer.from_str(json.dumps(content))
    size = tokenizer.get_vocab_size()
    with_special = [tokenizer.encode(s, add_special_tokens=True).ids for s in strings]
    tokenizer.encode_special_tokens = True
    plain = [tokenizer.encode(s, add_special_tokens=False).ids for s in strings]
    source = random.Random(3)
    # Not the added tokens beyond ASCII: tokenizers takes their characters for spelled bytes and breaks them.
    ids = [i for i in range(size) if not (i in tokenizer.get_added_tokens_decoder() and not tokenizer.id_to_token(i).isascii())]
    sequences = [[source.choice(ids) for _ in range(source.randint(1, 12))] for _ in range(100)]
    decoded = [{"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False), "without_special": tokenizer.decode(ids)} for ids in sequences]
    return {"plain": plain, "with_special": with_special, "decoded": decoded}


def write(path, value, **options):
    path.write_text(json.dumps(value, **options) + "\n")


def make_tokenizers(folder):
    folder.mkdir(parents=True, exist_ok=True)
    strings = nasty_strings()
    write(folder / "strings.json", strings, indent=0)
    for make in (qwen2, qwen2_legacy, llama3):
        content = make()
        target = folder / make.__name__
        target.mkdir(exist_ok=True)
        write(target / "tokenizer.json", content, separators=(",", ":"))
        write(target / "expected.json", expectations(content, strings), separators=(",", ":"))
        print(f"goldens: tokenizer {make.__name__}, {len(content['model']['vocab'])} base tokens")


def make_trained(folder):
    """What tokenizers makes of the file that Quern's own trainer wrote (test_policy_text, with QUERN_WRITE_GOLDENS set)."""
    content = json.loads((folder / "trained" / "tokenizer.json").read_text())
    write(folder / "trained" / "expected.json", expectations(content, nasty_strings()), separators=(",", ":"))
    print(f"goldens: trained tokenizer, {len(content['model']['vocab'])} base tokens")
