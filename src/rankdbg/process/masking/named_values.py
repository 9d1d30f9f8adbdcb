"""Values after the name of a secret: `token=x`, `{'token': 'x'}`, `--token x`, `token: x`.

The text is scanned once, from one word that may belong to the name of a secret to the next. The
name is read to the left of the word; the separator and the value are read to the right. No part is
scanned twice, except names, whose length is limited.
"""

from __future__ import annotations

import re

from rankdbg.process.masking.patterns import lazy
from rankdbg.process.masking.secrecy import (
    LONGEST_NAME,
    MASK,
    Secrecy,
    begins_harmless,
    is_mixed,
    is_no_secret,
    is_password_name,
    looks_made_up,
    secrecy,
    word_set,
)

# The name of a secret contains one of these; a short one only at the end of a word. (Grouped by
# first letters, in lower case: ten times as fast as a list of words in either case.)
_KEYWORD = lazy(
    r"p(?:ass|swd|(?:wd|w|at|sk)(?![a-z]))|s(?:e(?:cret|ssion)|ig(?:nature|(?![a-z]))|as(?![a-z]))"
    r"|tok(?:en|(?![a-z]))|key|c(?:red|ookie|srf)|auth|bearer|jwt|webhook|d(?:sn(?![a-z])|ockerc)|hmac|xsrf"
)
_SHORTEST_PASSWORD = 6  # letters, in prose
_ENOUGH = 200  # letters of a value that are examined first
_NAME_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_REST_OF_NAME = lazy(rf"[\w.-]{{0,{LONGEST_NAME}}}")
_HEADERS = ("authorization", "cookie", "cookies")

# After a name: the end of its quotes and brackets, then the sign before a value. (Colour codes of
# a terminal may be between them, and quotes may be escaped for HTML or an address.)
_COLOUR = r"(?:\x1b\[[\d;]{0,12}m){0,3}"
_ENCODED_QUOTE = r"&quot;|&#3[49];|%2[27]|\\u002[27]"
_CLOSING = (
    rf"(?:\\{{0,7}}[\"'`]|{_ENCODED_QUOTE})?\]?\)?{_COLOUR}[ \t]{{0,8}}"
    r"(?:(?:provided|given|used|supplied|sent|received|value)[ \t]{0,2})?"
    r"(?P<whose>for[ \t](?:user[ \t])?[\w.@\\-]{1,60}[ \t]?(?=:[ \t]))?"
)
_TYPE = r"(?:(?:Optional\[)?(?:str|bytes|SecretStr|Any|string)\]?(?:[ ]?\|[ ]?None)?[ ]{0,2}=)"
_TAG = r"(?:!{1,2}[\w:./-]{1,40}[ \t]{1,4})"  # of YAML
_SEPARATOR = lazy(
    rf"{_CLOSING}(?:(?P<sign>=>|->|:=|[=!]==?|=|:(?!:)|%3[AD])[ \t]{{0,8}}{_TYPE}?{_TAG}?{_COLOUR}\s{{0,8}}"
    rf"|(?P<tag>>)"
    # {{"name": "HF_TOKEN", "value": "x"}}, name: HF_TOKEN↵ value: x, key="Token" value="x"
    rf"|,?\s{{0,40}}\\{{0,7}}[\"']?[Vv]alue\\{{0,7}}[\"']?[ \t]{{0,4}}[:=]\s{{0,8}})"
)
_PAIR = lazy(r"(?P<quote>[\"']),\s{0,4}(?P<value>(?P=quote)[^\"'\n]{1,4000}(?P=quote))\s{0,4}[)\]]")
# A tuple of two, or a list of two among others: `['token', 'text']` may be names of columns.
_BEFORE_PAIR = lazy(r"(?:(?P<keys>KeyError: \()|(?P<tuple>\([ ]{0,2})|[\[\]],?\s{0,4}\[)[bu]?\Z")
# Also to the next cell of a table.
_GAP = lazy(
    r"\\{0,7}[\"']?[ \t]{1,8}(?:(?:is|was|set[ \t]to|(?P<to>to)):?[ \t]{1,4}|[ \t]{0,40}[|\u2502\u2503][ \t]{1,40})?"
)
_SOON = lazy(r"(?:[ \t][a-z]{1,15}){1,3}:?[ \t](?P<value>[A-Za-z0-9]{20,400})(?![\w-])")
_OPEN = lazy(
    rf"[bBrRuUfF]{{0,2}}(?P<slashes>\\{{0,15}})(?P<quote>\"\"\"|'''|[\"'`]|{_ENCODED_QUOTE})"
)
_BARE = lazy(
    r"(?:\$[{(][^\n{}()]{0,200}[})]|[^\s\"'`,;&|<>(){}\[\]\\\x1b]|[\"'`|<>){}\[\]](?=\w)|\\[^\snrt\"']"
    r"|,(?![\s\"'{\[]|\Z|[\w.-]{1,60}[=:]))+"
)
_ODD = lazy(r"(?:[&;|<>)}\]\\](?=[\w&;|<>)}\]\\])\S*)?")  # a password may begin so
_BLOCK = lazy(r"[|>][+-]?\d?[ \t]{0,40}\n")
_BRACKET = lazy(r"[\"'()\[\]{}]")
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_SCHEME = lazy(r"(?:bearer|basic|token|digest|negotiate|apikey|api-key|splunk)[ \t]{1,4}", re.I)
_SECOND_WORD = lazy(r"(?i)(?:api|access|secret|private|auth|account|signing|security)[ _-]\Z")
# Words after an option that is mentioned in prose, not used.
_PROSE = word_set("""
    a an and are argument at be but by can cannot does flag for from has if in instead into is may
    must needs not of on option or parameter requires set should so that the then to value was when
    which will with without you
""")
_HELD = lazy(r"[^()\n]{0,200}?\bvalue=(?=b?[\"'])")
# Where a space is enough between a name and its value.
_BLANK_IS_ENOUGH = lazy(
    r"\b(?:setenv|setx|ENV|ARG|set(?:[ \t]{1,4}-\w{1,4}){1,3}|login\s{1,8}\S{1,80}"
    r"|config(?:ure)?(?:[ \t]{1,4}--?\w{1,20})?[ \t]{1,4}(?:set|add))\s{1,8}\Z"
)


def mask_named_values(text: str) -> str:
    lower = _lower(text)
    pieces: list[str] = []
    done = at = 0
    while hit := _KEYWORD.search(lower, at):
        start = _start_of_name(text, done, hit.start())
        rest = _REST_OF_NAME.match(text, hit.end())
        at = rest.end() if rest else hit.end()
        value = _value_after(text, start, _without_full_stop(text, hit.end(), at))
        if value is not None:
            pieces += [text[done : value[0]], MASK]
            done = at = value[1]
    return "".join((*pieces, text[done:])) if pieces else text


def _lower(text: str) -> str:
    """Lower case with unchanged positions: lower() makes two letters of `İ`."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _start_of_name(text: str, least: int, first: int) -> int:
    head = text[max(least, first - LONGEST_NAME) : first]
    return first - len(head) + len(head.rstrip(_NAME_LETTERS))


def _without_full_stop(text: str, least: int, end: int) -> int:
    while end > least and text[end - 1] in ".-":
        end -= 1
    return end


def _value_after(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The start and end of the secret that belongs to this name."""
    name = text[start:end]
    before = text[start - 1 : start]
    level = _level_in_text(text, start, name)
    if level is Secrecy.NONE or (before == "/" and text[end : end + 1] != "="):
        return None
    if before in ("?", "&", ";") and level is Secrecy.IF_RANDOM:
        level = Secrecy.LIKELY
    separator = _SEPARATOR.match(text, end)
    if separator is not None and separator["whose"] and level is not Secrecy.CERTAIN:
        return None  # `token for step: 3`, but `password for bob: x`
    if separator is None or (separator["tag"] and before not in ("<", "/")):
        return _value_without_separator(text, start, end, level)
    if begins_harmless(text[separator.end() : separator.end() + _ENOUGH], level):
        return None  # before searching its end, which may be far
    place = _place_of_value(text, start, name, separator)
    return None if place is None or _is_harmless(text, place, name, level) else place


def _is_harmless(text: str, place: tuple[int, int], name: str, level: Secrecy) -> bool:
    start, end = place
    return is_no_secret(name, text[start : min(end, start + 4000)].strip(), level)


def _level_in_text(text: str, start: int, name: str) -> Secrecy:
    """`API key` is `API_key`; `PWD` is a directory in an environment, a password elsewhere."""
    if name == "PWD":
        return Secrecy.CERTAIN
    if name.lower() == "pass" and text[start + 4 : start + 6].lstrip().startswith(":"):
        # `1st pass: …`, `PASS: test_x`; but also `pass: x` in a file
        return Secrecy.LIKELY if name.islower() and _begins_line(text, start) else Secrecy.IF_RANDOM
    if text[start - 1 : start] == " ":
        before = _SECOND_WORD.search(text, max(0, start - 12), start)
        return secrecy(f"{before[0]}{name}" if before else name)
    return secrecy(name)


def _place_of_value(
    text: str, start: int, name: str, separator: re.Match[str]
) -> tuple[int, int] | None:
    first = separator.end()
    if separator["tag"]:
        close = text.find("<", first)
        return (first, close) if close > first and text.startswith("</", close) else None
    if opening := _OPEN.match(text, first):
        return opening.end(), _end_of_quoted(text, opening)
    sign = separator["sign"] or ""
    if len(sign) > 1 and "=" in sign and ">" not in sign and sign != ":=":
        return None  # a comparison: it shows a secret only if that is a literal
    if _BLOCK.match(text, first):
        return first, _end_of_block(text, start, first)
    if sign and "\n" in text[separator.end("sign") : first]:
        return None  # the next line has another name before a value
    if text[first : first + 1] in _CLOSES:
        return first, _end_of_brackets(text, first)
    return first, _end_of_bare(text, start, name, first, sign)


def _end_of_quoted(text: str, opening: re.Match[str]) -> int:
    """The place of the closing quotes; if there are none (the text was cut), the end of the line."""
    slashes, quote = opening["slashes"], opening["quote"]
    if slashes:
        end = text.find(slashes + quote, opening.end())
    else:
        end = text.find(quote, opening.end())
        while end > 0 and _is_escaped(text, opening.end(), end):
            end = text.find(quote, end + 1)
    if end >= 0:
        return end
    line = text.find("\n", opening.end())
    return line if line >= 0 else len(text)


def _is_escaped(text: str, least: int, place: int) -> bool:
    slashes = text[max(least, place - 64) : place]
    return (len(slashes) - len(slashes.rstrip("\\"))) % 2 == 1


def _end_of_block(text: str, start: int, first: int) -> int:
    """A block of YAML: the lines with more indentation than the name's."""
    line = text.rfind("\n", 0, start) + 1
    depth = len(text[line:start]) - len(text[line:start].lstrip(" -"))
    end = text.find("\n", first)
    while end >= 0:
        following = text[end + 1 : end + 2 + depth]
        if following.strip(" ") and len(following) - len(following.lstrip(" ")) <= depth:
            return end
        end = text.find("\n", end + 1)
    return len(text)


def _end_of_brackets(text: str, first: int) -> int:
    """The place after the closing bracket; brackets within quotes do not count."""
    depth = 0
    at = first
    while found := _BRACKET.search(text, at):
        at = found.end()
        if found[0] in "\"'":
            close = text.find(found[0], at)
            at = close + 1 if close >= 0 else at
        elif found[0] in "([{":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return at
    return len(text)


def _end_of_bare(text: str, start: int, name: str, first: int, sign: str) -> int:
    """The end of a value without quotes: the end of its word. For a header or a password in YAML:
    the end of the line, or of the quotes around both."""
    before = text[start - 1 : start]
    of_header = sign == ":" and name.lower().endswith(_HEADERS)
    if of_header or (sign == ":" and is_password_name(name) and _begins_line(text, start)):
        close = text.find(before, first) if before in ("'", '"') else -1
        close = close if close >= 0 else len(text)
        line = text.find("\n", first, close)
        return line if line >= 0 else close
    if scheme := _SCHEME.match(text, first):
        first = scheme.end()
    word = _BARE.match(text, first)
    end = word.end() if word else _ODD.match(text, first).end()  # type: ignore[union-attr]
    if end > first and text[end : end + 1] == "(":
        return _end_of_brackets(text, end)
    return end


def _begins_line(text: str, start: int) -> bool:
    line = text.rfind("\n", max(0, start - 80), start) + 1
    return (line > 0 or start < 80) and not text[line:start].strip(" -\t\"'")


def _value_without_separator(
    text: str, start: int, end: int, level: Secrecy
) -> tuple[int, int] | None:
    name = text[start:end]
    if place := _made_of_literals(text, name, end, level):
        return place
    quote = text[start - 1 : start]
    if quote in ("'", '"') and (place := _in_a_pair(text, start, end, level)):
        return place
    if said := _said_soon_after(text, end, level):
        return said
    gap = _GAP.match(text, end)
    if gap is None or (level is Secrecy.IF_RANDOM and not name.startswith("-")):
        return None
    first = gap.end()
    if gap["to"] and not (is_password_name(name) and _OPEN.match(text, first)):
        return None  # `set PGPASSWORD to 'x'`, but `from token to rank3`
    if begins_harmless(text[first : first + _ENOUGH], level):
        return None
    if opening := _OPEN.match(text, first):
        place = opening.end(), _end_of_quoted(text, opening)
    else:
        word = _BARE.match(text, first)
        place = first, word.end() if word else first
    if _is_harmless(text, place, name, level):
        return None
    value = text[place[0] : min(place[1], place[0] + 4000)]
    if name.startswith("-"):
        is_value = not value.startswith("-") and value.strip(".,:").lower() not in _PROSE
    elif _BLANK_IS_ENOUGH.search(text, max(0, start - 120), start):
        is_value = True
    elif opening:
        is_said = bool(gap[0].strip()) and _has_digit(value)
        is_value = is_password_name(name) or is_said or looks_made_up(value)
    elif gap[0].strip():
        is_value = looks_made_up(value) or (_has_digit(value) and not value[0].isdigit())
    else:
        is_value = looks_made_up(value) or (is_password_name(name) and _is_no_word(value))
    return place if is_value else None


def _in_a_pair(text: str, start: int, end: int, level: Secrecy) -> tuple[int, int] | None:
    before = _BEFORE_PAIR.search(text, max(0, start - 19), start - 1)
    pair = _PAIR.match(text, end)
    if before is None or pair is None or before["keys"]:
        return None
    value = pair["value"][1:-1]
    is_sure = before["tuple"] or level is Secrecy.CERTAIN or _has_digit(value)
    if not is_sure or is_no_secret(text[start:end], value, level):
        return None
    return pair.start("value") + 1, pair.end("value") - 1


def _said_soon_after(text: str, end: int, level: Secrecy) -> tuple[int, int] | None:
    """`credential helper returned aZ3kQ9xW…`: a few words, then what is neither word nor name."""
    said = _SOON.match(text, end) if level >= Secrecy.LIKELY else None
    return said.span("value") if said and is_mixed(said["value"]) else None


def _is_no_word(value: str) -> bool:
    return len(value) >= _SHORTEST_PASSWORD and _has_digit(value) and any(map(str.isalpha, value))


def _has_digit(value: str) -> bool:
    return any(map(str.isdigit, value))


def _made_of_literals(text: str, name: str, end: int, level: Secrecy) -> tuple[int, int] | None:
    """What is between the brackets of `SecretStr('x')` and `HTTPBasicAuth('bob', 'x')`, or is the
    value in `Credential(id=1, value='x')`: of a class, not of a function, and not if it is made of
    variables."""
    kind = name.rpartition(".")[2]
    is_class = kind[:1].isupper() and not kind.isupper()
    if not is_class or not (level is Secrecy.CERTAIN or kind.endswith(("Auth", "Cookie"))):
        return None
    if text[end : end + 1] != "(":
        return None
    held = _HELD.match(text, end + 1)
    if held and (opening := _OPEN.match(text, held.end())):
        return opening.end(), _end_of_quoted(text, opening)
    opening = _OPEN.match(text, end + 1)
    if opening is None or begins_harmless(text[end + 1 : end + _ENOUGH], level):
        return None
    close = _end_of_brackets(text, end)
    place = end + 1, close - 1 if text[close - 1] == ")" else close
    literal = text[opening.end() : _end_of_quoted(text, opening)]
    return None if is_no_secret(name, literal, level) else place
