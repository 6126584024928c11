"""The service: erasure requests for all of an organisation's models, over HTTP.

It adds no privacy of its own. A web process notes requests and decisions in a ledger of its own; a worker carries them
out in every workspace of a folder; the workspaces keep the evidence. :class:`~eupg.service.service.Service` is what the
API, the pages and the adapters all call.
"""
