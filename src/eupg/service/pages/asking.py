"""The pages for data subjects: the form, its confirmation, and what became of the request.

A link holds a token that stands for the person. It is in no log, since calls are logged by route; in no other site's
log, since no page tells another site where a visitor comes from; and in no cache. Nothing here depends on whether the
person is known.
"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Form, Path
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from eupg.errors import ParameterError, UnknownRequest, WrongState
from eupg.manage.requests.states import STEPS, State
from eupg.service.pages import words
from eupg.service.pages.certificates import download, printed
from eupg.service.pages.frame import Guest, PageRoute, Visit, check_form, redirect
from eupg.service.requests import NewRequest
from eupg.service.signin.current import CSRF_FIELD, CurrentRates

router = APIRouter(route_class=PageRoute)
Token = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{43}$")]
Csrf = Annotated[str, Form(alias=CSRF_FIELD)]
_MOST_MESSAGES = 20
_LINK = re.compile(r"^https?://[^/\s]+(/erasure/(?:confirm|status)/[A-Za-z0-9_-]{43})$")


@router.get("/erasure")
def form(visit: Guest) -> Response:
    """Show the form."""
    return _form(visit, {}, "", {})


def _form(visit: Visit, identities: dict[str, str], email: str, errors: dict[str, str], status: int = 200) -> Response:
    public = visit.service.public_form
    if not public.is_open:
        raise WrongState("There is no form here. Please write to the organisation instead.")
    return visit.show(
        "ask.html",
        title="Have your data erased",
        code=status,
        kinds=[kind for kind in public.kinds if kind != "email"],
        identities=identities,
        email=email,
        errors=errors,
    )


@router.post("/erasure")
async def submit(visit: Guest, rates: CurrentRates) -> Response:
    """Take a submission; the answer is the same for everybody."""
    sent = await visit.request.form(max_files=0)
    check_form(visit, str(sent.get(CSRF_FIELD, "")))
    public, email = visit.service.public_form, str(sent.get("email", "")).strip()
    kinds = [kind for kind in public.kinds if kind != "email"]
    identities = {kind: str(sent.get(f"identity-{kind}", "")).strip() for kind in kinds}
    given = {kind: value for kind, value in identities.items() if value}
    if "email" in public.kinds and email:
        # The link in the message shows that the address is theirs.
        given["email"] = email
    errors = {}
    if not given and kinds:
        errors[f"identity-{kinds[0]}"] = "Say how we know you."
    for kind, value in given.items():
        try:
            NewRequest({kind: value}, source="form")
        except ParameterError as error:
            errors[f"identity-{kind}"] = str(error)
    if not errors:
        # Nobody's mailbox is filled by others through this form.
        rates.check("mail", visit.service.seal.digest("mail", email.lower()))
        try:
            await run_in_threadpool(public.submit, given, email=email)
        except ParameterError:
            errors["email"] = "Enter an e-mail address such as name@example.org."
    if errors:
        return _form(visit, identities, email, errors, 422)
    return redirect("/erasure/sent")


@router.get("/erasure/sent")
def sent(visit: Guest) -> Response:
    """Say that a message is on its way."""
    return visit.show("ask_sent.html", title="Please look at your e-mail")


@router.get("/erasure/confirm/{token}")
def ask_to_confirm(visit: Guest, token: Token) -> Response:
    """Ask before filing: programs that open every link in an e-mail must not file a request."""
    visit.service.public_form.check(token)
    return visit.show("ask_confirm.html", title="Confirm your request", token_value=token)


@router.post("/erasure/confirm/{token}")
def confirm(visit: Guest, token: Token, csrf: Csrf = "") -> Response:
    """File the request, and show where it stands."""
    check_form(visit, csrf)
    return redirect(f"/erasure/status/{visit.service.public_form.confirm(token).status_token}")


@router.get("/erasure/status/{token}")
def status(visit: Guest, token: Token) -> Response:
    """Show the person where their request stands; not whether they were known."""
    person, request = visit.service.public_form.person(token)
    case = visit.service.requests.read(person, request)
    state = case.request.state
    said, meaning = words.FOR_THE_PERSON[state]
    steps = [
        ("Received", True),
        ("Decided", state not in (State.RECEIVED, State.VERIFIED)),
        ("Carried out", state in (State.COMPLETED, State.CERTIFIED)),
    ]
    return visit.show(
        "ask_status.html",
        title="Your request",
        token_value=token,
        case=case,
        said=said,
        meaning=meaning,
        steps=steps if state not in (State.REJECTED, State.CANCELLED) else [],
        reason=case.request.reason if state is State.REJECTED else "",
        certificate=state is State.CERTIFIED and case.request.verified,
        certificate_held_back=state is State.CERTIFIED and not case.request.verified,
        withdrawable=State.CANCELLED in STEPS[state],
    )


@router.post("/erasure/status/{token}/withdraw")
def withdraw(visit: Guest, token: Token, csrf: Csrf = "") -> Response:
    """Withdraw the request."""
    check_form(visit, csrf)
    person, request = visit.service.public_form.person(token)
    visit.service.requests.cancel(person, request)
    return redirect(f"/erasure/status/{token}", notice="cancelled")


@router.get("/erasure/status/{token}/certificate.json")
def signed_file(visit: Guest, token: Token) -> Response:
    """Hand out the certificate to its owner."""
    person, request = visit.service.public_form.person(token)
    return download(visit.service.certificates.content(person, request), f"{request}.json")


@router.get("/erasure/status/{token}/certificate.html")
def printable(visit: Guest, token: Token) -> Response:
    """Show the certificate to its owner, for printing."""
    person, request = visit.service.public_form.person(token)
    return printed(visit.service.certificates.page(person, request))


@router.get("/demo/mail")
def messages(visit: Guest) -> Response:
    """Show the messages that a demonstration would have sent."""
    if not visit.service.settings.demo:
        raise UnknownRequest("there is no such page here")
    folder = visit.service.settings.own_folder / "outbox"
    paths = sorted(folder.glob("*.txt"), key=lambda path: path.stat().st_mtime, reverse=True) if folder.is_dir() else []
    shown = []
    for path in paths[:_MOST_MESSAGES]:
        head, _, text = path.read_text(encoding="utf-8").partition("\n\n")
        lines = [(line, match[1] if (match := _LINK.match(line)) else "") for line in text.splitlines()]
        shown.append({"head": head.splitlines(), "lines": lines})
    return visit.show("mail.html", title="Messages of the demonstration", messages=shown)
