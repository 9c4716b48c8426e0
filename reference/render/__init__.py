"""The reference renderer: what a chat or completion request becomes, stage by stage, and where it may differ."""
