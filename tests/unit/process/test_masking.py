"""masking: secrets are hidden, and what only looks like one stays readable."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

from rankdbg.process import masking
from rankdbg.process.masking import (
    LONGEST_COMMAND,
    LONGEST_TEXT,
    MASK,
    is_secret_name,
    mask_command,
    mask_environment,
    mask_text,
    mask_value,
)
from rankdbg.process.masking.patterns import LazyPattern
from secret_shapes import COMMANDS, HEX40, LINES, ORDINARY, ORDINARY_COMMANDS, R36, SHAPES

SECRET_NAMES = """
    HF_TOKEN HUGGING_FACE_HUB_TOKEN WANDB_API_KEY OPENAI_API_KEY ANTHROPIC_API_KEY GITHUB_TOKEN
    AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN AZURE_CLIENT_SECRET DB_PASSWORD
    PGPASSWORD MYSQL_PWD REDIS_PASS NEPTUNE_API_TOKEN COMET_API_KEY apikey APIKEY ApiKey
    GOOGLE_APPLICATION_CREDENTIALS PRIVATE_KEY SSH_KEY SSH_PRIVATE_KEY ENCRYPTION_KEY AUTH_HEADER
    AUTHORIZATION SENTRY_DSN JWT COOKIE SESSION_ID GPG_PASSPHRASE NGC_API_KEY KEY SIGNING_KEY
    DBPASS CREDS AWS_CREDENTIALS GH_PAT BLOB_SAS SECRET_KEY_BASE hfToken accountkey SLACK_WEBHOOK_URL
    OCI_KEY_CONTENT OCI_CLI_KEY_CONTENT VAULT_SECRET_ID REMOTE_PSK
    AZURE_STORAGE_KEY STORAGE_ACCOUNT_KEY NETRC_PASSWD SLURM_JWT MASTER_KEY TOKEN
"""
HARMLESS_NAMES = """
    PWD OLDPWD HOME PATH SHELL TERM TOKENIZERS_PARALLELISM MASTER_PORT MASTER_ADDR KEYBOARD MONKEY
    MONKEYPATCH XAUTHORITY SSH_AUTH_SOCK HF_HOME TOKENIZER TOKENIZER_PATH TOKENIZER_MODE
    MAX_TOKENS NUM_TOKENS PRIMARY_KEY TOKEN_FILE SECRET_NAME KEYRING_BACKEND AUTHOR GIT_AUTHOR_NAME PRIVATE_IP XDG_SESSION_ID
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


def test_user_with_a_password() -> None:
    """A variable that names a user may have the password after a colon; ids of users are no secret."""
    users = {"ETCDCTL_USER": "root:hunter2", "RUN_USER": "1000:1000", "DB_USER": "bob"}
    assert mask_environment(users) == {**users, "ETCDCTL_USER": f"root:{MASK}"}


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
        ("client_secret: !vault Zq9hunter2", "client_secret: !vault ***"),
        ("key: !str loss", "key: !str loss"),
        ("{'user': 'bob', 'pw': 'abc'}", "{'user': 'bob', 'pw': '***'}"),
        ("pw=16 ph=16 pw=tensor([1])", "pw=16 ph=16 pw=tensor([1])"),
        ("API_KEY set to x9y", "API_KEY set to ***"),
        ("API_KEY set to nothing", "API_KEY set to nothing"),
        ("| wandb_api_key | Zq9hunter2kX4 |", "| wandb_api_key | *** |"),
        ("│ hf_token      │ Zq9hunter2kX4 │", "│ hf_token      │ *** │"),
        ("| token | count |\n| key | 17 |", "| token | count |\n| key | 17 |"),
        ("Using token Zq9hunter2kX4 to pull", "Using token *** to pull"),
        ("the token tokenization17 follows", "the token tokenization17 follows"),
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
        (
            "kubectl create secret generic x --from-literal=pw=abc",
            "kubectl create secret generic x --from-literal=***",
        ),
        (
            "kubectl create configmap x --from-literal=lr=0.1",
            "kubectl create configmap x --from-literal=lr=0.1",
        ),
        ("vault login Zq9hunter2kX4", "vault login ***"),
        ("twine upload -u a -p abc", "twine upload -u a -p ***"),
        ("vault login -method=userpass", "vault login -method=userpass"),
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


# --- the table ------------------------------------------------------------------------------


def test_shapes() -> None:
    """No secret is left of any of the ways to write it down."""
    leaks = [
        f"{text!r} -> {mask_text(text)!r}" for text, secret in SHAPES if secret in mask_text(text)
    ]
    assert not leaks, f"{len(leaks)} of {len(SHAPES)} leak:\n" + "\n".join(leaks)


@pytest.mark.parametrize(
    "around",
    ["2025-01-01 12:00:00 [rank3]: {}", "RuntimeError: failed ({})", "{} and so on", "'{}'"],
)
def test_shapes_in_a_line(around: str) -> None:
    """Nor in the midst of a line of a log."""
    lines = [(around.replace("{}", text), secret) for text, secret in LINES]
    leaks = [
        f"{line!r} -> {mask_text(line)!r}" for line, secret in lines if secret in mask_text(line)
    ]
    assert not leaks, f"{len(leaks)} of {len(lines)} leak:\n" + "\n".join(leaks)


def test_commands() -> None:
    """No secret is left of a command line, however the program takes it."""
    leaks = [
        f"{words} -> {mask_command(words)}"
        for words, secret in COMMANDS
        if secret in " ".join(mask_command(words))
    ]
    assert not leaks, f"{len(leaks)} of {len(COMMANDS)} leak:\n" + "\n".join(leaks)


def test_ordinary_text_stays() -> None:
    """What only looks like a secret can be read."""
    alarms = [f"{text!r} -> {mask_text(text)!r}" for text in ORDINARY if mask_text(text) != text]
    assert not alarms, f"{len(alarms)} of {len(ORDINARY)} false alarms:\n" + "\n".join(alarms)


def test_ordinary_commands_stay() -> None:
    """Neither is anything hidden of an ordinary command line."""
    words = [[text] for text in ORDINARY if " " not in text.strip()] + ORDINARY_COMMANDS
    alarms = [f"{each} -> {mask_command(each)}" for each in words if mask_command(each) != each]
    assert not alarms, f"{len(alarms)} of {len(words)} false alarms:\n" + "\n".join(alarms)


def test_masking_again_changes_nothing() -> None:
    """A node masks, and so does a report: twice is the same as once."""
    once = [mask_text(text) for text, _ in SHAPES]
    assert [mask_text(text) for text in once] == once


@pytest.mark.parametrize(
    ("name", "value", "masked"),
    [
        ("config", "{'hf_token': 'hunter2', 'lr': 0.1}", "{'hf_token': '***', 'lr': 0.1}"),
        ("config", "{'a': {'b': {'password': 'hunter2…", "{'a': {'b': {'password': '***"),
        ("password", "'hunter2'", MASK),
        ("password", "12345678", MASK),
        ("password", "None", "None"),
        ("auth", "('bob', 'hunter2')", MASK),
        ("token", "42", "42"),
        ("token", "Tensor 4×3 int64 cuda:0", "Tensor 4×3 int64 cuda:0"),
        ("token", "'<|endoftext|>'", "'<|endoftext|>'"),
        ("next_token", "'hello'", "'hello'"),
        ("key", "'layers.0.attn.q_proj.weight'", "'layers.0.attn.q_proj.weight'"),
        ("key", f"'{HEX40}'", MASK),
        ("get_token", "<function get_token at 0x…>", "<function get_token at 0x…>"),
        ("client", "Client(api_key='hunter2')", "Client(api_key='***')"),
        ("note", f"'hf_{R36[:12]}…", "'***…"),
    ],
)
def test_values_of_variables(name: str, value: str, masked: str) -> None:
    """A local variable is masked by its name, by its value, and by what its value says."""
    assert mask_value(name, value) == masked


# --- long texts -----------------------------------------------------------------------------

PIECES = """
a : " ' :// a= \\ \\" {' -----BEGIN eyJ eyJ- eyJaaaaaaaaaaaa. Bearer_ basic_ token token_ token= token:
token=" token=' password:_ "\\ token=( key=( key=" key= key:_ secret=f( --token_ -key_ <token> ?key= @
a:b@ ://a: ://@/ _a aA1 -aA1 sk- sk_live_ $ $1$ ${ token=${ . s. N.a. curl_ curl_-u_ curl_" mysql_-p
token=self. echo_a|_ |_x-stdin PASSWORD(' login(' token=lambda_ token=Tensor token_is_ token_" 'authorization:_ cookie:_ ('token','x
PRIVATE_KEY----- a:1:a:a: hooks/ ://hooks/ İ api_key_ login_a_password_ token, token== token=a, value:_
"""
ADVERSARIAL = [piece.replace("_", " ") for piece in PIECES.split()] + [
    *("\n", "token: |\n  ", "name: token\nvalue: ", "-----BEGIN PRIVATE KEY-----", "pass pass:"),
    *("password='\\'", "key=aZ3kQ9xWv7Tb2LmN8c", "token=[1,", "'authorization: token|"),
]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_no_text_takes_long(part: int) -> None:
    """An argument as long as Linux allows is masked in time, whatever is repeated in it. (With work
    that grows as the square of the length, one of these takes longer than a test may.)"""
    for piece in ADVERSARIAL[part::8]:
        mask_text((piece * (131_000 // len(piece) + 1))[:131_000])


def _patterns() -> Iterator[tuple[str, re.Pattern[str] | LazyPattern]]:
    for module in pkgutil.iter_modules(masking.__path__, "rankdbg.process.masking."):
        for name, value in vars(importlib.import_module(module.name)).items():
            values = value if isinstance(value, tuple) else (value,)
            for each in values:
                found = each[1] if isinstance(each, tuple) and len(each) > 1 else each
                if isinstance(found, (re.Pattern, LazyPattern)):
                    yield f"{module.name}.{name}", found


def _unbounded_before_more(parsed: Any, is_last: bool) -> bool:
    """Whether something of any length is followed by what may fail, and so be tried again."""
    items = list(parsed)
    for index, (kind, arguments) in enumerate(items):
        last = is_last and index == len(items) - 1
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            _, most, inner = arguments
            is_unbounded = str(most) == "MAXREPEAT"
            if is_unbounded and not last:
                return True
            if _unbounded_before_more(inner, last and not is_unbounded):
                return True
        elif name == "SUBPATTERN":
            if _unbounded_before_more(arguments[3], last):
                return True
        elif name == "BRANCH":
            if any(_unbounded_before_more(branch, last) for branch in arguments[1]):
                return True
        elif name in ("ASSERT", "ASSERT_NOT") and _unbounded_before_more(arguments[1], False):
            return True
    return False


def test_patterns_cannot_backtrack_far() -> None:
    """In every pattern, what may be of any length stands at the end: nothing after it can fail
    and have it tried anew."""
    parser = importlib.import_module("re._parser" if hasattr(re, "_parser") else "sre_parse")
    patterns = dict(_patterns())
    assert len(patterns) > 20
    wrong = [
        name
        for name, pattern in patterns.items()
        if _unbounded_before_more(parser.parse(pattern.pattern, pattern.flags), True)
    ]
    assert not wrong


def test_what_is_too_long_is_left_out() -> None:
    """Of a longer text the rest is not shown at all, nor the word through which the cut goes."""
    text = "word " * (LONGEST_TEXT // 5) + f"hf_{R36} " + "word " * 100
    masked = mask_text(text)
    assert "hf_" not in masked
    assert masked.startswith("word word")
    assert masked.endswith("characters left out: too long to mask]")
    assert mask_text("a" * 10_000_000) == "… [10000000 characters left out: too long to mask]"


def test_a_long_command_is_cut() -> None:
    """One long argument does not hide the others, and many words end with how many are left out."""
    masked = mask_command(["python", "a" * 131_000, "x.py"])
    assert masked[:2] == ["python", "… [131000 characters left out: too long to mask]"]
    words = ["word"] * LONGEST_COMMAND
    masked = mask_command([*words, "--token", "hunter2"])
    assert "words left out" in masked[-1]
    assert len(masked) < len(words)
    assert "hunter2" not in masked
