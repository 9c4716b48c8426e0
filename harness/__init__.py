"""How Afere runs, compares and reports. Knows no model, no clause, no tensor layout."""

from __future__ import annotations

__version__ = "0.1.0"
