"""Multi-head latent attention in float64, with a reduction order of its own, and how far off is still right.

``geometry`` says what the numbers of a cache row mean, ``rope`` turns positions into rotations, ``cache`` reads pages,
``absorbed`` and ``expanded`` are the two algebras and each other's first oracle, ``floats`` knows the storage formats,
``bound`` derives how far an honest implementation may be off, ``exact`` says where it may not be off at all.
"""
