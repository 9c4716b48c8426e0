"""What is right: the contract and the oracles. Imports neither the harness nor the suites."""
