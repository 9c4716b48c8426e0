"""Groups of commands too large for the main module."""
