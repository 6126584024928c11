"""Other protocols for the same requests: the Data Rights Protocol, and OpenDSR."""
