"""Names of secrets: nasty ones are found, hyperparameters stay."""

from __future__ import annotations

from typing import Any

import pytest

from deployer.config.redaction import (
    REDACTED,
    STRUCTURE,
    find_secret,
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
def test_the_value_of_a_nasty_name_is_in_no_lock_file(name: str) -> None:
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
        shown = str(redact(value, STRUCTURE if name not in STRUCTURE else frozenset()))
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
    job = {
        "env": [
            {"name": "WANDB_API_KEY", "valueFrom": {"secretKeyRef": {"key": "k", "name": "s"}}}
        ],
        "volumes": [{"secret": {"secretName": "s", "items": [{"key": "k", "path": "key"}]}}],
        "tolerations": [{"key": "nvidia.com/gpu"}],
        "command": ["${envvar:HF_TOKEN}", "--token", "${envvar:HF_TOKEN}", "A_KEY=$A_KEY"],
    }
    assert redact(job, STRUCTURE) == job


def test_texts_lose_credentials_wherever_they_stand() -> None:
    assert redact_text("https://me:ghp_1@host/x.git") == "https://host/x.git"
    assert redact_text("curl -H 'Authorization: Bearer abcdef123'").endswith(f"Bearer {REDACTED}'")
    assert redact_text("TOKEN=abc python x.py") == f"TOKEN={REDACTED} python x.py"
    assert redact_text("ssh git@host:team/x.git") == "ssh git@host:team/x.git"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ('+wandb.login(api_key="abcdef123456")', "api_key"),
        ("+    'password': 'hunter22'", "password"),
        ("+WANDB_API_KEY=abcdef123456", "WANDB_API_KEY"),
        ("+url = 'https://me:pass@host'", "an address with credentials"),
        ("+best = max(rows, key='accuracy')", ""),
        ("+tokens = tokenizer(text)", ""),
        ("+token = os.environ['HF_TOKEN']", ""),
        ("+lr = 0.1\n-lr = 0.2", ""),
    ],
)
def test_a_secret_in_code_is_found(code: str, name: str) -> None:
    assert find_secret(code) == name
