"""Template snippets: one construct of the template language each, and values to put into them.

A generated template is a list of these. Their text is ours; what they must give is fixed by the documentation of
Jinja2 3.1 and by the transformers documentation of chat templates.
"""

from __future__ import annotations

import re
from typing import Any

from suites.render.setups import fixtures

PLAIN = "{{ messages[0].content }}"

SNIPPETS: dict[str, str] = {
    "plain": PLAIN,
    # printing and tojson of a variable
    "print": "[{{ v }}]",
    "tojson": "[{{ v | tojson }}]",
    "tojson-indent": "[{{ v | tojson(indent=2) }}]",
    "tojson-sorted": "[{{ v | tojson(sort_keys=true) }}]",
    "tojson-ascii": "[{{ v | tojson(ensure_ascii=true) }}]",
    "tojson-separators": "[{{ v | tojson(separators=(',', ':')) }}]",
    "concat": "[{{ 'x' ~ v ~ 'y' }}]",
    "string": "[{{ v | string }}]",
    "length": "[{{ v | length }}]",
    "iterate": "{% for x in v %}({{ x }}){% endfor %}",
    "truth": "[{% if v %}yes{% else %}no{% endif %}]",
    "default": "[{{ v | default('d') }}][{{ v | default('d', true) }}]",
    "is-string": "[{{ v is string }}]",
    "is-mapping": "[{{ v is mapping }}]",
    "is-iterable": "[{{ v is iterable }}]",
    "is-number": "[{{ v is number }}]",
    "is-integer": "[{{ v is integer }}]",
    "is-none": "[{{ v is none }}]",
    "is-sequence": "[{{ v is sequence }}]",
    "is-true": "[{{ v is true }}]",
    "equal": "[{{ v == 1 }}{{ v == 'a' }}{{ v == none }}]",
    # printing of constants
    "print-true": "[{{ true }}{{ false }}{{ none }}]",
    "print-float": "[{{ 1.5 }}{{ 1.0 }}]",
    "print-exponent": "[{{ 1e20 }}]",
    "print-small": "[{{ 0.0000001 }}]",
    "print-list": "[{{ [1, 'a', none] }}]",
    "print-map": "[{{ {'a': 1} }}]",
    "print-tuple": "[{{ (1, 2) }}]",
    "print-power": "[{{ 2 ** 70 }}]",
    "print-division": "[{{ 7 / 2 }}{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 % 3 }}{{ -7 % 3 }}]",
    "print-divide-by-zero": "[{{ 1 / 0 }}]",
    "print-undefined": "[{{ nothing }}]",
    "undefined-attribute": "[{{ nothing.more }}]",
    "missing-key": "[{{ messages[0].nothing }}]",
    "missing-key-attribute": "[{{ messages[0].nothing.more }}]",
    "index-beyond": "[{{ messages[99] }}]",
    "undefined-test": "[{{ nothing is defined }}{{ nothing is undefined }}{{ nothing is none }}]",
    # loops and scope
    "loop-variables": "{% for m in messages %}{{ loop.index }}{{ loop.first }}{{ loop.last }};{% endfor %}",
    "loop-neighbours": (
        "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}"
        "{{ loop.nextitem.role if loop.nextitem is defined else '-' }}{% endfor %}"
    ),
    "loop-revindex": "{% for m in messages %}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.length }}{% endfor %}",
    "loop-cycle": "{% for m in messages %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "loop-else": "{% for m in [] %}x{% else %}none{% endfor %}",
    "loop-filter": "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
    "loop-break": "{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
    "loop-continue": "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.role }}{% endfor %}",
    "loop-scope": "{% set a = 1 %}{% for m in messages %}{% set a = 2 %}{% endfor %}[{{ a }}]",
    "loop-items": "{% for k, x in messages[0].items() %}{{ k }}={{ x }};{% endfor %}",
    "loop-dictsort": "{% for k, x in messages[0] | dictsort %}{{ k }}={{ x }};{% endfor %}",
    "loop-reverse": "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}",
    "loop-slice": "{% for m in messages[1:] %}{{ m.role }}{% endfor %}",
    "loop-recursive": (
        "{% for x in [[1, [2]]] recursive %}{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}{% endif %}{% endfor %}"
    ),
    "namespace": "{% set n = namespace(a=0) %}{% for m in messages %}{% set n.a = loop.index %}{% endfor %}{{ n.a }}",
    "namespace-conditional": "{% set ns = namespace(a=1 if messages else 2) %}[{{ ns.a }}]",
    "macro": "{% macro f(a, b='x') %}({{ a }}{{ b }}){% endmacro %}{{ f(1) }}{{ f(1, b=2) }}",
    "macro-caller": "{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}in{% endcall %}",
    "set-block": "{% set a %}x{{ messages[0].role }}{% endset %}[{{ a }}]",
    "set-many": "{% set a, b = 1, 2 %}[{{ a }}{{ b }}]",
    "with": "{% with a = 1 %}[{{ a }}]{% endwith %}",
    "generation": "{% generation %}{{ messages[0].content }}{% endgeneration %}",
    "raw": "{% raw %}{{ x }}{% endraw %}",
    "filter-block": "{% filter upper %}abc{% endfilter %}",
    # expressions
    "conditional": "[{{ 'a' if messages else 'b' }}{{ 'c' if false }}]",
    "chained-comparison": "[{{ 1 < 2 < 3 }}]",
    "in": "[{{ 'a' in 'abc' }}{{ 'role' in messages[0] }}{{ 1 not in [2] }}]",
    "list-add": "[{{ ([1] + [2]) | length }}]",
    "list-multiply": "[{{ 'ab' * 3 }}]",
    "string-format": "[{{ '%s-%d' % ('a', 3) }}]",
    "negative-index": "[{{ messages[-1].role }}]",
    "dotted-integer": "[{{ messages.0.role }}]",
    "dict-get": "[{{ messages[0].get('role') }}{{ messages[0].get('x', 'd') }}]",
    "dict-function": "[{{ dict(a=1).a }}]",
    "range": "{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(6, 0, -2) %}{{ i }}{% endfor %}",
    "inline-condition-argument": "[{{ ['a' if true else 'b'] | join }}]",
    "boolean-words": "[{{ True }}{{ False }}{{ None }}]",
    "escapes": "[{{ 'a\\nb\\t\\'\\\\' }}]",
    "unicode-escape": "[{{ '\\u00e9' }}]",
    "integer-underscore": "[{{ 1_000 }}]",
    # string methods
    "method-strip": "[{{ '  a '.strip() }}|{{ 'xax'.lstrip('x') }}|{{ 'xax'.rstrip('x') }}]",
    "method-split": "{% for x in 'a,b,,c'.split(',') + ' a  b '.split() %}({{ x }}){% endfor %}",
    "method-split-print": "[{{ 'a b'.split() }}]",
    "method-split-last": "[{{ 'a</t>b</t>c'.split('</t>')[-1] }}]",
    "method-startswith": "[{{ 'abc'.startswith('a') }}{{ 'abc'.endswith('b') }}]",
    "method-startswith-tuple": "[{{ 'abc'.startswith(('x', 'a')) }}]",
    "method-case": "[{{ 'aB'.upper() }}{{ 'aB'.lower() }}{{ 'ab cd'.title() }}{{ 'ab'.capitalize() }}]",
    "method-replace": "[{{ 'aaa'.replace('a', 'b') }}{{ 'aaa'.replace('a', 'b', 1) }}]",
    "method-find": "[{{ 'abc'.find('c') }}{{ 'abc'.count('b') }}]",
    "method-join": "[{{ ', '.join(['a', 'b']) }}]",
    "method-isdigit": "[{{ '12'.isdigit() }}{{ 'a'.isalpha() }}]",
    "method-format": "[{{ '{} {}'.format('a', 1) }}]",
    "method-splitlines": "{% for x in 'a\\nb'.splitlines() %}({{ x }}){% endfor %}",
    "method-removeprefix": "[{{ 'abc'.removeprefix('a') }}]",
    "method-keys": "{% for k in messages[0].keys() %}{{ k }};{% endfor %}",
    "method-append": "{% set a = [] %}{% set _ = a.append(1) %}[{{ a | length }}]",
    # filters
    "filter-trim": "[{{ '  a ' | trim }}]",
    "filter-join": "[{{ [1, 2] | join(', ') }}{{ messages | map(attribute='role') | join }}]",
    "filter-select": "[{{ messages | selectattr('role', 'equalto', 'user') | list | length }}]",
    "filter-reject": "[{{ [1, 2, 3] | reject('odd') | join }}]",
    "filter-first": "[{{ [1, 2] | first }}{{ [1, 2] | last }}]",
    "filter-items": "{% for k, x in messages[0] | items %}{{ k }};{% endfor %}",
    "filter-int": "[{{ '3' | int }}{{ 'x' | int }}{{ '2.5' | float }}]",
    "filter-replace": "[{{ 'aab' | replace('a', 'c') }}]",
    "filter-upper": "[{{ 'aé' | upper }}{{ 'AÉ' | lower }}{{ 'ab cd' | title }}{{ 'aB' | capitalize }}]",
    "filter-sort": "[{{ [3, 1, 2] | sort | join }}{{ ['b', 'A'] | sort | join }}]",
    "filter-unique": "[{{ [1, 1, 2] | unique | join }}]",
    "filter-round": "[{{ 2.5 | round }}{{ 2.567 | round(2) }}]",
    "filter-escape": "[{{ '<a>' | e }}]",
    "filter-safe": "[{{ '<a>' | safe }}]",
    "filter-indent": "[{{ 'a\\nb' | indent(2) }}]",
    "filter-batch": "{% for x in [1, 2, 3] | batch(2) %}({{ x | join }}){% endfor %}",
    "filter-groupby": "{% for g, x in messages | groupby('role') %}{{ g }};{% endfor %}",
    "filter-sum": "[{{ [1, 2] | sum }}{{ [1, 2] | max }}{{ -1 | abs }}]",
    "filter-wordcount": "[{{ 'a b c' | wordcount }}]",
    "filter-truncate": "[{{ 'a long line of words' | truncate(9) }}]",
    "filter-pprint": "[{{ {'a': 1} | pprint }}]",
    "filter-list-string": "[{{ 'ab' | list | length }}]",
    "filter-reverse": "[{{ 'abc' | reverse }}{{ [1, 2] | reverse | join }}]",
    # blanks
    "trim-blocks": "a\n{% if true %}\nb\n{% endif %}\nc\n",
    "lstrip-blocks": "a\n    {% if true %}b{% endif %}\n",
    "minus": "a  {%- if true -%}  b  {%- endif -%}  c",
    "plus": "a\n  {%+ if true %}b{% endif +%}\nc",
    "comment": "a{# no #}b{#- no -#} c",
    "line-end": "a\r\nb\r\n",
    "trailing-newline": "a\n",
    # refusing
    "raise": "{{ raise_exception('no') }}",
    "raise-conditional": "{% if messages | length > 99 %}{{ raise_exception('no') }}{% endif %}ok",
    "syntax-error": "{% if %}",
    "unknown-filter": "{{ 'a' | nofilter }}",
    "unknown-tag": "{% notag %}",
    "unclosed": "{{ 'a'",
    # what transformers gives
    "special-tokens": "[{{ bos_token }}{{ eos_token }}]",
    "strftime": "[{{ strftime_now is defined }}]",
    "given": "[{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}]",
}  # fmt: skip

SNIPPETS |= {
    f"whole-{file.stem}": file.read_text(encoding="utf-8")
    for file in sorted((fixtures() / "templates" / "whole").glob("*.jinja"))
}

NAMES: dict[str, str] = {source: name for name, source in SNIPPETS.items()}

TAKES_VALUE = tuple(name for name, source in SNIPPETS.items() if re.search(r"\bv\b", source))

VALUES: list[Any] = [
    "a", "", "é<>&'\"/", "\u2028", "x\ny", "😀", True, False, 0, 1, -1, 2**53 + 1, 2**63, 2**70, 1.0, 1.5, -0.0,
    1e16, 1e20, 1e-7, 0.1, [], [1, "a", None, True], ["it's"], ['"'], {}, {"b": 1, "a": [1.5, None]}, {"a": {"b": []}},
    [[1], []],
    "\x00\x7f", {"k": "é"}, [1e-7], ["a\nb"], "  a ", [False], {"a": True},
]  # fmt: skip
"""Values of the variable ``v``."""


TESTS = ("is-", "length", "truth", "equal")
"""Beginnings of the names of snippets that look at a value and print something else: its class is no cause there."""

TAGS: dict[str, tuple[str, ...]] = {
    "print-exponent": ("snippet:print", "value:float-exponent"),
    "print-small": ("snippet:print", "value:float-exponent"),
    "print-float": ("snippet:print", "value:float", "value:float-integral"),
    "print-true": ("snippet:print", "value:constant"),
    "print-power": ("snippet:print", "value:integer-beyond-64-bit"),
    **dict.fromkeys(
        ("print-list", "print-map", "method-split-print"), ("snippet:print", "value:container", "value:word")
    ),
    "default": ("snippet:print", "snippet:default"),
    **dict.fromkeys(("loop-items", "method-keys", "filter-items"), ("snippet:mapping-keys",)),
    "concat": ("snippet:print", "snippet:concat"),
    "string": ("snippet:print", "snippet:string"),
    "iterate": ("snippet:print", "snippet:iterate"),
    **{f"tojson-{option}": ("snippet:tojson",) for option in ("indent", "sorted", "ascii", "separators")},
}
"""Tags of the snippets that do something another one does too: one cause is to have one name."""


def kinds(value: Any) -> set[str]:
    """Tags of a value, so that a difference is told by class and not by value."""
    found: set[str] = set()
    pending = [value]
    while pending:
        item = pending.pop()
        found |= {f"value:{kind}" for kind in _kinds(item)}
        if isinstance(item, dict):
            pending += [*item.values(), *item]
        elif isinstance(item, list):
            pending += item
    return found


def _kinds(value: Any) -> tuple[str, ...]:
    if value is None or isinstance(value, bool):
        return ("constant",)
    if isinstance(value, int):
        return ("integer" if -(2**63) <= value < 2**63 else "integer-beyond-64-bit",)
    if isinstance(value, float):
        found = (
            *(["float-integral"] if value.is_integer() else []),
            *(["float-exponent"] if "e" in repr(value) else []),
        )
        return found or ("float",)
    if isinstance(value, str):
        return (_string_kind(value),)
    return ("container",)


def _string_kind(value: str) -> str:
    if any(ord(c) < 32 or ord(c) == 127 for c in value):
        return "control-text"
    if not value.isascii():
        return "non-ascii-text"
    if any(c in "'\"" for c in value):
        return "quoted-text"
    return "word"
