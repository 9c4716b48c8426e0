"""The harness judges itself: its algebra, its journal, its reports, its promises."""
