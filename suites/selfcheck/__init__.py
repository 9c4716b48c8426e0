"""The harness judges itself: a toy suite, and tests that hold every stage to its promises."""
