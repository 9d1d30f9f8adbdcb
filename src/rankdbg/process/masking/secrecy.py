"""Which names belong to secrets, and which values after such a name are harmless."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise

from rankdbg.process.masking.patterns import lazy

MASK = "***"
LONGEST_NAME = 128


class Secrecy(IntEnum):
    """How likely the value after a name is a secret."""

    NONE = 0
    IF_RANDOM = 1  # `key`, `signature`: a secret only if the value looks like one
    LIKELY = 2  # `token`, `api_key`: a secret unless the value is a number or a special token
    CERTAIN = 3  # `password`, `secret`


# --- names --------------------------------------------------------------------------------

_WORD = lazy(r"[A-Z]{1,128}(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HARMLESS_NAMES = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XDG_SESSION_ID"})
_FILE = lazy(
    r"\.(?:bin|c|cc|cfg|conf|cpp|crt|cu|gz|h|ini|jinja|js|json|jsonl|log|md|model|pem|pt|pub|py|pyc"
    r"|rs|safetensors|sh|so|toml|tsv|csv|txt|vocab|yaml|yml)\Z",
    re.IGNORECASE,
)


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PASSWORD_ENDINGS = (
    *("password", "passwords", "passwd", "passphrase", "passphrases", "passcode"),
    *("passwort", "pswd"),
)
_SECRET_ENDINGS = (
    *_PASSWORD_ENDINGS,
    *("secret", "secrets", "credential", "credentials", "creds", "secretkey", "secretstring"),
)
# Last words of names that mean not the secret itself, but a property of it.
_ABOUT = word_set("""
    accuracy address age agent alg algorithm arn at attempts audience backend backends board budget
    by cache callback check class client column cost count counter counts dataset date dim dims dir
    directory disabled dtype embed embedding embeddings embeds enabled endpoint env error errors
    exception exists expiration expired expires expiry factory failure failures field file filename
    files fn folder for format found frames frequency func function generator getter group groups
    handler helper host hostname idx ids index info invalid issuer kind len length level lifetime
    limit limits list location loss logits logprob logprobs manager map mask max method min missing
    mode model module mount name names namespace not num number offset offsets on order owner pair
    parallel path paths per pool policy port position positions pos prefix probs prompt provider
    rate ratio ref reference refs region request required requests reset rotation scheme scope
    scopes server service set settings shape size sock socket source space speed state stats status
    stdin store strategy strength stream suffix table throughput time timeout timestamp total tree ttl
    type types uri url usage user username users validator vars version volume warning weight
    weights window word words
""")
# Words after `token`, `key`, `auth` with which the name still means the secret itself.
_HOLDERS = word_set(
    "b b64 base base64 code config content contents data default dev encoded header headers json live main old pem "
    "plain primary prod production raw read ro root rw secondary staging str string test text "
    "value values write"
)
# Words of language models before `token`.
_VOCABULARY = word_set("""
    active additional assistant audio begin best bos boundary cached call class cls current decode draft
    dummy each end eod eom eos eot every extra filler final first frame generated image img
    input inter last log loss mask max mean min ms multi n new next no non num number one output
    pad padding patch per placeholder predicted prefill prev previous prompt register rejected
    sampled second separator sep single sos special start state stop sub target text think time
    tool total turn unk unknown unused user video vision visual vocab word xml
""")
_AUTHORITIES = word_set(
    "access api auth bearer bot deploy github gitlab hf oauth refresh secret service session"
)
_KEY_KINDS = word_set("""
    access account activation admin api app application auth cipher client cloud cosmos crypt
    crypto decryption deploy device encryption enc function host hmac integration jwt license master
    org personal priv private project push registry routing rsa sdk secret security server service
    session shared sign signing ssh ssl storage subscription tls vault webhook write
""")
# Services whose keys are called by the service alone: `--wandb-key`, `openai_key`.
_SERVICES = word_set("""
    anthropic aws azure cohere comet datadog deepseek gcp gemini github gitlab google groq hf huggingface
    kaggle langchain langsmith mistral neptune newrelic ngc openai openrouter pinecone sendgrid sentry
    stripe tavily together twilio wandb
""")
_DATA_KEYS = word_set("""
    batch bucket by cache column composite config data dict dictionary feature field file
    foreign group hash idempotency image index input item join label lookup loss map mapping metric
    missing module monitor mouse natural node object output param parameter partition pickle
    plot primary prompt public query record ref registry resource reward row score search shape
    shard sharding sort state store tensor text train tuple unexpected unique value weight wrong
""")
_AUTH_WORDS = word_set("auth authorization authentication bearer cookie cookies jwt oauth oauth2")
_HARMLESS_PASSES = frozenset(
    f"{which}pass"
    for which in word_set("""
        all backward band by com encom first forward full high last low multi one over second single
        sur three tres two under
    """)
)
_PASSES_OF_PROGRAMS = word_set("""
    all autodiff backward bwd compiler dry each export final first forward fusion fwd fx graph
    inductor last lowering max multi n next num one opt optimization per post pre second single
    sub test tests third two warmup
""")
# Short words that are secrets in an environment or an address, and mean other things in programs.
_SHORT = word_set("pat sas dsn pw psk")


@lru_cache(maxsize=4096)
def secrecy(name: str) -> Secrecy:
    """By the words of a name: `HF_TOKEN`, `hfToken`, `hf-token` and `hftoken` are equal."""
    name = name[-LONGEST_NAME:]
    if name in _HARMLESS_NAMES or _FILE.search(name):
        return Secrecy.NONE
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    if len(words) > 1 and words[-1] == "id" and words[-2].endswith(("key", "session")):
        words.pop()
        if words[-1].endswith("session"):
            return Secrecy.LIKELY
    if words[-2:] == ["secret", "id"]:  # of Vault; elsewhere the name of a secret
        return Secrecy.LIKELY if name.isupper() else Secrecy.IF_RANDOM
    if not words or words[-1] in _ABOUT or words[-1] == "id":
        return Secrecy.NONE if "webhook" not in words else Secrecy.LIKELY
    is_shouted = name.isupper()
    return max(_secrecy_of_word(words, index, is_shouted) for index in range(len(words)))


def _secrecy_of_word(words: list[str], index: int, is_shouted: bool) -> Secrecy:
    word = words[index]
    before = words[index - 1] if index else ""
    after = words[index + 1] if index + 1 < len(words) else ""
    is_last = not after or after in _HOLDERS
    if word.endswith((*_SECRET_ENDINGS, "dockerconfigjson", "dockercfg")) or word == "cred":
        return Secrecy.CERTAIN
    if word in ("pwd", "pswd", "bindpw", "rootpw") and not after:
        return Secrecy.CERTAIN
    if word.endswith("pass") and is_last:
        harmless = word in _HARMLESS_PASSES or before in _PASSES_OF_PROGRAMS
        return Secrecy.NONE if harmless else Secrecy.LIKELY
    if word.endswith(("token", "tokens")):
        return _secrecy_of_token(word, before, is_last, after)
    if word.endswith(("key", "keys")) and is_last:
        return _secrecy_of_key(word, before, is_shouted)
    if word in _AUTH_WORDS or word.endswith("jwt"):
        return Secrecy.LIKELY if is_last else Secrecy.NONE
    if word in _SHORT and not after:
        return (
            Secrecy.LIKELY
            if before or is_shouted or word in ("dsn", "sas", "pw", "psk")
            else Secrecy.IF_RANDOM
        )
    if word in ("webhook", "sessionid"):
        return Secrecy.LIKELY
    if word == "keytab" and is_last:
        return Secrecy.IF_RANDOM
    if word in ("sig", "signature", "tok", "hmac", "csrf", "xsrf") and not after:
        return Secrecy.IF_RANDOM
    return Secrecy.NONE


def _secrecy_of_token(word: str, before: str, is_last: bool, after: str) -> Secrecy:
    kind = word.removesuffix("s").removesuffix("token") or before
    if word.endswith("s"):
        return Secrecy.LIKELY if kind in _AUTHORITIES and is_last else Secrecy.NONE
    if kind in _VOCABULARY:
        return Secrecy.NONE
    return Secrecy.LIKELY if is_last else Secrecy.IF_RANDOM


def _secrecy_of_key(word: str, before: str, is_shouted: bool) -> Secrecy:
    kind = word.removesuffix("s").removesuffix("key")
    if kind:  # in one word: accountkey, sharedaccesskey; but not monkey
        return Secrecy.LIKELY if kind.endswith(tuple(_KEY_KINDS)) else Secrecy.NONE
    if before in _KEY_KINDS or before in _SERVICES:
        return Secrecy.LIKELY
    if word == "keys" or before in _DATA_KEYS:
        return Secrecy.NONE
    return Secrecy.LIKELY if is_shouted else Secrecy.IF_RANDOM


def is_password_name(name: str) -> bool:
    """Whether it is the name of a password: these may contain spaces."""
    words = [word.lower() for word in _WORD.findall(name[-LONGEST_NAME:])]
    return bool(words) and words[-1].endswith((*_PASSWORD_ENDINGS, "pwd"))


# --- values -------------------------------------------------------------------------------

_NOTHING = word_set("""
    - -- .. ... … any bool bytes callable default denied disabled dict empty enabled expired false fail
    expected failed found hidden incorrect int invalid list masked missing n/a nil no none not null object ok omitted
    off on optional present rejected redacted removed required set str string true undefined unknown
    unset valid wrong xxx xxxx yes
""")
_NUMBER = lazy(
    r"[-+]?(?:\d{1,12}(?:,\d{3}){0,4}(?:\.\d{0,20})?|\.\d{1,20})(?:e[-+]?\d{1,3})?[%smx]?\Z", re.I
)
_NUMBERS = lazy(r"[\[({][-+\d\s.,e]{0,2000}[\])}]?\Z")
# A variable of a shell or a template, a placeholder, a special token of a model.
_PLACEHOLDER = lazy(
    r"\$\{?\w{1,100}\}?\Z|\$\([^\n]{0,200}\Z|%\w{1,100}%\Z|\{\{?[\w .$()\[\]'\"-]{0,100}\}?\}?\Z"
    r"|</?[\w .|/:-]{1,60}>\Z|<[|\uff5c][^<>\n]{1,60}[|\uff5c]>\Z|\[/?[A-Z_]{2,30}\d{0,6}\]\Z|\*{2,100}\Z|[•·x]{3,100}\Z"
)
# Values as in a line of code, a description of an array or the repr of an object.
_CODE = lazy(
    r"(?:os\.(?:environ|getenv)|(?:get)?env(?:iron)?\b[.(\[]|self\.[a-zA-Z_]|args\.[a-zA-Z_]"
    r"|(?:cfg|conf|config|options|opts|settings|kwargs|secrets)[.\[]|lambda\b|await\b"
    r"|[\w.]{1,100}\([\w.,\s=]{0,100}\)?\Z|[a-z_][\w.]{0,60}\[[\w.,:' -]{1,60}\](?=\s|\Z)"
    r"|\w{0,40}(?:[Tt]ensor|Parameter|ndarray|array)\b|<(?:function|class|bound|built-in|module)\b"
    r"|<[\w.]{1,100} object at )"
)
_QUOTES = "\"'`"
_SCHEME = lazy(r"(?:bearer|basic|token)[ \t]{1,4}", re.IGNORECASE)


def is_harmless_value(name: str, value: str, level: Secrecy) -> bool:
    """Whether the value after the name of a secret is not a secret."""
    value = value.strip()
    return begins_harmless(value, level) or is_no_secret(name, value.strip(_QUOTES), level)


def begins_harmless(text: str, level: Secrecy) -> bool:
    """The same, by the beginning of a value, without searching its end."""
    if level is Secrecy.IF_RANDOM and not looks_random(text):
        return True
    return _CODE.match(text) is not None


def is_no_secret(name: str, value: str, level: Secrecy) -> bool:
    """A whole value, without its quotes."""
    value = _SCHEME.sub("", value, count=1)
    if not value or value.rstrip(".:!").lower() in _NOTHING:
        return True
    if level is Secrecy.IF_RANDOM and not looks_random(value):
        return True
    if _PLACEHOLDER.match(value) or _repeats_name(name, value):
        return True
    if level <= Secrecy.LIKELY and (_NUMBER.match(value) or _NUMBERS.match(value)):
        return True
    if level <= Secrecy.LIKELY and not _letters(value):  # `#token: ..`
        return True
    return value.startswith(("/", "~/", "./")) and _letters(name).endswith("pwd")


def _repeats_name(name: str, value: str) -> bool:
    """`api_key=api_key`, `self._token = token`, `--token TOKEN`."""
    words = _WORD.findall(name)
    return _letters(value) == _letters(name) or (bool(words) and value == words[-1].lower())


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text[-LONGEST_NAME:])).lower()


_SHORTEST_MIXED = 8  # letters of one that is shorter than random ones
_RANDOM_PART = lazy(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{16,}")


def looks_random(text: str) -> bool:
    """One long part of letters and digits: neither an identifier nor a path."""
    for part in _RANDOM_PART.findall(text[:1000]):
        longest = max(part.split("/"), key=len) if part.count("/") > 2 else part
        digits = sum(map(str.isdigit, longest))
        if len(longest) >= 16 and digits >= 2 and digits < len(longest):
            return True
    return False


def looks_made_up(text: str) -> bool:
    """No word of prose."""
    return looks_random(text) or (len(text) >= _SHORTEST_MIXED and is_mixed(text))


def is_mixed(text: str) -> bool:
    """Upper case, lower case and digits alternate as in no name."""
    kinds = ["0" if letter.isdigit() else "A" if letter.isupper() else "a" for letter in text[:200]]
    changes = sum(one != other for one, other in pairwise(kinds))
    return len(set(kinds)) == 3 and kinds.count("0") >= 2 and changes >= 0.38 * len(kinds)
