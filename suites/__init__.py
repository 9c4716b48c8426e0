"""What we probe. One folder per subject; each joins the harness and the reference."""
