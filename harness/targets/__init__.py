"""The target protocol and its three transports: in process, HTTP, and a worker over stdio."""
