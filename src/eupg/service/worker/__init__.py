"""The worker: carries out what was accepted, in every workspace, and delivers messages."""
