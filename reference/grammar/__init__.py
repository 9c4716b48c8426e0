"""Regular expressions as trees: their text, strings from and beside their language, and membership.

``ast`` holds the records, ``program`` their JSON form, ``text`` the pattern text in the dialect that the standards
share, ``match`` membership by sets of positions (polynomial, under every admissible reading), ``oracle`` the verdict of
that matcher and of Python's ``re`` together, ``sample`` the strings.
"""
