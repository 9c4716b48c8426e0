"""Regular expressions put to grammar compilers."""

from __future__ import annotations

from suites.grammar.suite import GrammarSuite

SUITE = GrammarSuite()
