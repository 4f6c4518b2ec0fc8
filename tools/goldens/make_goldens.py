#!/usr/bin/env python3
# Makes the golden files under tests/golden/policy with transformers and tokenizers, the programs that Quern
# has to agree with. Run it with .venv-python/bin/python (tools/setup.sh --python); a second run writes the
# same files.
#
#   make_goldens.py [models] [tokenizers] [trained] [chat] [losses]        all of them if none is named
#   make_goldens.py backends      measures again, for models that are there, what two of transformers' back-ends differ by
import pathlib
import sys

sys.dont_write_bytecode = True

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "policy"


def models():
    from model_goldens import make_models

    make_models(GOLDEN / "models")


def backends():
    from model_goldens import measure_backends

    measure_backends(GOLDEN / "models")


def tokenizers():
    from tokenizer_goldens import make_tokenizers

    make_tokenizers(GOLDEN / "tokenizers")


def trained():
    from tokenizer_goldens import make_trained

    make_trained(GOLDEN / "tokenizers")


def chat():
    from chat_goldens import make_chat

    make_chat(ROOT, GOLDEN)


def losses():
    from loss_goldens import make_losses

    make_losses(GOLDEN / "losses.json")


# backends: only on a further kind of processor.
ALL = ("models", "tokenizers", "trained", "chat", "losses")
PARTS = {"models": models, "backends": backends, "tokenizers": tokenizers, "trained": trained, "chat": chat, "losses": losses}


def main():
    wanted = sys.argv[1:] or ALL
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"make_goldens: unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    for name in wanted:
        PARTS[name]()


if __name__ == "__main__":
    main()
