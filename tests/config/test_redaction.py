"""Names of secrets: nasty ones are found, hyperparameters stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from deployer.config.redaction import (
    REDACTED,
    find_hidden,
    is_secret_name,
    redact,
    redact_text,
)

NASTY = """
WANDB_API_KEY api_key apiKey apikey APIKey HF_TOKEN hfToken HFTOKEN githubtoken GITHUB-TOKEN token
Token password PASSWORD db_password PGPASSWORD mysqlPassword passwd pwd DB_PWD passphrase secret
client_secret clientSecret SECRETKEY AWS_SECRET_ACCESS_KEY aws.access.key.id accessKey privateKey
ssh-private-key credentials GOOGLE_CREDENTIALS auth HTTP_AUTH bearer x-auth-token keys signing_key
"""
PLAIN = """
lr monkey keyboard tokenizer tokenizer_name turkey hockey passes patience path compass author
authors batch_size authenticity bypass pattern tokenized keynote
"""


@pytest.mark.parametrize("name", NASTY.split())
def test_the_value_of_a_nasty_name_is_in_no_text(name: str) -> None:
    assert is_secret_name(name)
    hidden: list[Any] = [
        {name: "hunter22"},
        {"deep": [{name: {"value": "hunter22"}}, {name: {"values": ["hunter22", "x"]}}]},
        {"env": [{"name": name, "value": "hunter22"}]},
        {"environment": [[name, "hunter22"], (name, "hunter22")]},
        {"args": ["train.py", f"--{name}=hunter22", f"--{name}", "hunter22", "--lr", "0.1"]},
        {"args": [f"--{name}", "hunter22"]},
        {"command": ["bash", "-c", f"export {name.replace('-', '_')}='hunter22'; python x.py"]},
    ]
    for value in hidden:
        shown = str(redact(value))
        assert "hunter22" not in shown, shown
        assert REDACTED in shown


@pytest.mark.parametrize("name", PLAIN.split())
def test_other_names_keep_their_values(name: str) -> None:
    value = {name: "some text", "args": [f"--{name}=text", f"--{name}", "text"]}
    assert not is_secret_name(name)
    assert redact(value) == value


def test_numbers_and_references_stay_and_passwords_never_do() -> None:
    kept = {"num_tokens": 512, "key_dim": 64, "use_auth": True, "max_tokens": {"value": 8}}
    assert redact(kept) == kept
    assert redact({"db_password": 123456}) == {"db_password": REDACTED}
    command = ["${envvar:HF_TOKEN}", "--token", "${envvar:HF_TOKEN}", "A_KEY=$A_KEY"]
    assert redact({"command": command}) == {"command": command}


def test_texts_lose_credentials_wherever_they_stand() -> None:
    assert redact_text("https://me:ghp_1@host/x.git") == "https://host/x.git"
    assert redact_text("curl -H 'Authorization: Bearer abcdef123'").endswith(f"Bearer {REDACTED}'")
    assert redact_text("TOKEN=abc python x.py") == f"TOKEN={REDACTED} python x.py"
    assert redact_text("ssh git@host:team/x.git") == "ssh git@host:team/x.git"


@pytest.mark.parametrize(
    "said",
    [
        "ValueError: bad api_key: hunter22",
        "Incorrect API key provided: sk-hunter22hunter22",
        "KeyError: {'api_key': 'hunter22', 'lr': 0.1}",
        "error: train.py --password hunter22 --lr 0.1",
        "login refused for password: hunter",
        'bad {"db_password": "hunter22"}',
        "401 for X-Api-Key: hunter22",
        "token='hunter22' refused",
        "HF_TOKEN=hunter22: not accepted",
        '{"password": "a\\"hunter22"}',
        "Namespace(credentials='a\\'hunter22')",
    ],
)
def test_what_a_program_prints_loses_its_secrets(said: str) -> None:
    assert "hunter" not in redact_text(said)
    assert REDACTED in redact_text(said)


@pytest.mark.parametrize(
    "said",
    [
        "KeyError: 'layer1.weight'",
        "ValueError: unknown key: momentum",
        "Unexpected key(s) in state_dict: 'fc.weight'",
        "usage: train.py --num-tokens 512 --token-dim 64",
        "{'num_tokens': 512, 'key_dim': 64}",
        "image registry:5000/auth:20240101a",
        "eos_token='</s>' bos_token=None cls_token=[CLS] token_id=5 num_tokens=2048",
        "must have the same length: key=512, value=256",
        "RuntimeError: CUDA error: out of memory at step 1200",
        "author: mary2000smith",
        "OSError: hf-internal-testing/tiny-random-bert-2 is no local folder",
    ],
)
def test_what_a_program_prints_otherwise_stays(said: str) -> None:
    assert redact_text(said) == said


@pytest.mark.parametrize("piece", ["a", "a-", "--a", "a.", "'a", "a: ", "sk-a"])
def test_a_line_may_be_long(piece: str) -> None:
    line = piece * 100_000
    assert redact_text(line) == line  # in a moment; hours if each letter might begin a name


@pytest.mark.parametrize("value", ["p'w\"hunter x", "back\\slash\u00fchunter", "A\nhunter1\nB\n"])
@pytest.mark.parametrize("write", [str, repr, json.dumps, quote, quote_plus])
def test_a_value_is_hidden_however_it_is_written(value: str, write: Callable[[str], str]) -> None:
    hidden = find_hidden({"passphrase": value})
    said = "\n".join(redact_text(line, hidden) for line in f"not {write(value)}".splitlines())
    assert "hunter" not in said
    assert REDACTED in said


def test_values_that_are_hidden_are_found_in_texts() -> None:
    config = {"api_key": {"value": "open sesame"}, "lr": 0.1, "pins": [["token", "1234"]], "pwd": 7}
    hidden = find_hidden(config)
    assert hidden >= {"open sesame", "1234"}
    assert "7" not in hidden  # it is in too many texts
    assert redact_text("no: open sesame, 1234", hidden) == f"no: {REDACTED}, {REDACTED}"
