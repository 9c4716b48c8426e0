"""What renderers do with requests. The entry point of the suite."""

from suites.render.suite import RenderSuite

SUITE = RenderSuite()
