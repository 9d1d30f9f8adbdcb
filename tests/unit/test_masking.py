"""masking: secrets are hidden, and what only looks like one stays readable."""

from __future__ import annotations

import pytest

from rankdbg.masking import MASK, is_secret_name, mask_command, mask_environment, mask_text

SECRET_NAMES = """
    HF_TOKEN HUGGING_FACE_HUB_TOKEN WANDB_API_KEY OPENAI_API_KEY ANTHROPIC_API_KEY GITHUB_TOKEN
    AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN AZURE_CLIENT_SECRET DB_PASSWORD
    PGPASSWORD MYSQL_PWD REDIS_PASS NEPTUNE_API_TOKEN COMET_API_KEY apikey APIKEY ApiKey
    GOOGLE_APPLICATION_CREDENTIALS PRIVATE_KEY SSH_KEY SSH_PRIVATE_KEY ENCRYPTION_KEY AUTH_HEADER
    AUTHORIZATION SENTRY_DSN JWT COOKIE SESSION_ID GPG_PASSPHRASE NGC_API_KEY KEY SIGNING_KEY
    AZURE_STORAGE_KEY STORAGE_ACCOUNT_KEY NETRC_PASSWD SLURM_JWT MASTER_KEY TOKEN
"""
HARMLESS_NAMES = """
    PWD OLDPWD HOME PATH SHELL TERM TOKENIZERS_PARALLELISM MASTER_PORT MASTER_ADDR KEYBOARD MONKEY
    MONKEYPATCH XAUTHORITY SSH_AUTH_SOCK HF_HOME TOKENIZER TOKENIZER_PATH TOKENIZER_MODE
    MAX_TOKENS NUM_TOKENS KEYRING_BACKEND AUTHOR GIT_AUTHOR_NAME PRIVATE_IP XDG_SESSION_ID
    XDG_SESSION_TYPE PAD_TOKEN_ID EOS_TOKEN_ID TOKENS_PER_STEP COMPASS BYPASS PASSES RANK
    NCCL_DEBUG SLURM_JOB_ID DBUS_SESSION_BUS_ADDRESS HOTKEY_MODE PATCH KEY_FRAMES SIGNAL SASHIMI
"""


@pytest.mark.parametrize("name", SECRET_NAMES.split())
def test_secret_names(name: str) -> None:
    """The value of a variable with such a name is hidden."""
    assert is_secret_name(name)
    assert mask_environment({name: "value"}) == {name: MASK}


@pytest.mark.parametrize("name", HARMLESS_NAMES.split())
def test_harmless_names(name: str) -> None:
    """Names that only contain the letters of a secret one stay readable."""
    assert mask_environment({name: "value"}) == {name: "value"}


def test_empty_value() -> None:
    """That a secret is not set is worth knowing, and is no secret."""
    assert mask_environment({"HF_TOKEN": ""}) == {"HF_TOKEN": ""}


@pytest.mark.parametrize(
    "secret",
    [
        "hf_" + "aB3" * 12,
        "ghp_" + "aB3" * 12,
        "github_pat_" + "aB3_" * 12,
        "glpat-" + "aB3-" * 6,
        "sk-" + "aB3" * 12,
        "sk-ant-api03-" + "aB3" * 12,
        "AKIA" + "ABCD1234" * 2,
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\n",
    ],
)
def test_secrets_by_their_form(secret: str) -> None:
    """Known forms of secrets are hidden wherever they stand."""
    assert secret not in mask_environment({"NOTE": f"use {secret}"})["NOTE"]
    assert mask_command(["python", "x.py", secret])[2] != secret


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://me:s3cret@db:5432/x", "postgres://me:***@db:5432/x"),
        ("http://:pw@proxy:3128", "http://:***@proxy:3128"),
        ("https://me@host/x", "https://me@host/x"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("tcp://10.0.0.1:29500", "tcp://10.0.0.1:29500"),
        ("a http://u:p@h b http://v:q@i", "a http://u:***@h b http://v:***@i"),
        ("https://h/x?token=abc&y=1", "https://h/x?token=***&y=1"),
        ("https://h/x?sig=a%2Fb&se=2025", "https://h/x?sig=***&se=2025"),
        ("https://h/x?page=2&author=me", "https://h/x?page=2&author=me"),
        ("sk-learn and task-1 stay", "sk-learn and task-1 stay"),
        ('{"api_key": "abc", "lr": "1"}', '{"api_key": "***", "lr": "1"}'),
        ("curl -H 'Bearer abc.def' x", "curl -H 'Bearer ***' x"),
        ("/models/hf_hub/tokenizer.json", "/models/hf_hub/tokenizer.json"),
    ],
)
def test_text(text: str, masked: str) -> None:
    """Passwords in addresses are hidden; the rest of the text stays."""
    assert mask_text(text) == masked


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        ("x.py --api-key abc --lr 1", "x.py --api-key *** --lr 1"),
        ("x.py --api-key=abc", "x.py --api-key=***"),
        ("x.py api_key=abc", "x.py api_key=***"),
        ("x.py trainer.wandb.api_key=abc", "x.py trainer.wandb.api_key=***"),
        ("x.py ++wandb.api_key=abc", "x.py ++wandb.api_key=***"),
        ("x.py --hf-token abc", "x.py --hf-token ***"),
        ("x.py --password -abc", "x.py --password ***"),
        ("env HF_TOKEN=abc python x.py", "env HF_TOKEN=*** python x.py"),
        ("x.py --token --verbose", "x.py --token --verbose"),
        ("x.py --tokenizer /models/llama", "x.py --tokenizer /models/llama"),
        ("x.py --max-tokens 100 --key-frames 3", "x.py --max-tokens 100 --key-frames 3"),
        ("x.py --max-new-tokens=100", "x.py --max-new-tokens=100"),
        ("x.py model.pad_token_id=0", "x.py model.pad_token_id=0"),
        ("x.py --token", "x.py --token"),
        ("x.py --db postgres://u:p@h/x", "x.py --db postgres://u:***@h/x"),
    ],
)
def test_command(command: str, masked: str) -> None:
    """Values of secret options are hidden in each way of writing them."""
    assert mask_command(command.split()) == masked.split()


def test_header() -> None:
    """A header on a command line is hidden."""
    command = ["curl", "-H", "Authorization: Bearer abc", "http://h"]
    assert mask_command(command) == ["curl", "-H", "Authorization: ***", "http://h"]
