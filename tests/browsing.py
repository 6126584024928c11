"""A browser without scripts: signs in, reads pages and sends their forms."""

from html.parser import HTMLParser

from fastapi.testclient import TestClient

from eupg.service.access import ServiceRole
from serving import Running


class Page(HTMLParser):
    """What tests look at in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append((tag, values))
        if tag == "form":
            self.forms.append({"method": values.get("method", "get"), "action": values.get("action", "")})
        if tag == "input" and values.get("name") == "csrf":
            self.forms[-1]["csrf"] = values["value"]


def visitor(live: Running) -> TestClient:
    """Return a browser in which nobody is signed in."""
    return TestClient(live.client.app, follow_redirects=False, raise_server_exceptions=False)


def sign_in(live: Running, role: ServiceRole) -> TestClient:
    """Return a browser in which somebody with this role is signed in."""
    browser = visitor(live)
    assert browser.post("/sign-in/demo", data={"role": str(role)}).status_code == 303
    return browser


def post(browser: TestClient, page: str, action: str, **fields):
    """Send the form of a page, as a browser without scripts does."""
    forms = Page(browser.get(page).text).forms
    form = next(form for form in forms if form["action"] == action)
    return browser.post(action, data={"csrf": form["csrf"], **fields})
