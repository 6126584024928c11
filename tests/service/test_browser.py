"""A real browser on every page: the walk of a new officer, accessibility in light and dark, and narrow screens."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from eupg.service.access import Actor, ServiceRole, permissions_of
from eupg.service.app import create_app
from eupg.service.requests import NewRequest
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings
from eupg.service.worker.loop import Worker
from managed import person
from serving import note_audit, settings_for

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = "/usr/bin/chromium"
AXE = Path(__file__).parent / "axe" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
pytestmark = pytest.mark.skipif(not Path(CHROMIUM).is_file(), reason="needs chromium at /usr/bin/chromium")
OFFICER = Actor("a-officer", "An officer", permissions_of([ServiceRole.REVIEW]))
# The tags of WCAG 2.2 AA, and what axe's authors call best practice.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
FIND = "async rules => (await axe.run(document, {runOnly: rules})).violations.map(v => [v.id, v.nodes[0].html])"


@pytest.fixture(scope="module")
def site(trained, tmp_path_factory) -> Iterator["Site"]:
    """A service in this process with a worker beside it, and requests in several states."""
    folder = tmp_path_factory.mktemp("site") / "models"
    shutil.copytree(trained, folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    settings = settings_for(folder, demo=True, public_url=address)
    names = _filed(settings)
    server = uvicorn.Server(uvicorn.Config(create_app(settings), port=port, log_config=None, access_log=False))
    threads = [threading.Thread(target=server.run)]
    service = Service.open(settings)
    worker = Worker(service)
    threads.append(threading.Thread(target=worker.run))
    for thread in threads:
        thread.start()
    until = time.monotonic() + 20
    while not server.started and time.monotonic() < until:
        time.sleep(0.05)
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield Site(address, names, browser, settings)
        browser.close()
    worker.stop()
    server.should_exit = True
    for thread in threads:
        thread.join()
    service.close()


def _filed(settings: ServiceSettings) -> dict[str, str]:
    """File an overdue request, one that is done, one that was rejected, and one that waits."""
    now = datetime.now(UTC)
    moment = now - timedelta(days=40)
    service = Service.open(settings, clock=lambda: moment)
    names = {}
    for i, (name, days) in enumerate((("overdue", 40), ("done", 20), ("rejected", 10), ("waiting", 2))):
        moment = now - timedelta(days=days)
        new = NewRequest({"subject": person(i)}, channel="letter")
        names[name] = service.requests.create(OFFICER, new).case.request.id
    service.requests.accept(OFFICER, names["done"])
    service.requests.reject(OFFICER, names["rejected"], reason="identity could not be verified")
    worker = Worker(service)
    worker.run_once()
    worker.release()
    with service.models.opened("all") as manager:
        note_audit(manager)
    service.close()
    return names


class Site:
    """A service to walk through, and a browser."""

    def __init__(self, address: str, names: dict[str, str], browser: Any, settings: ServiceSettings) -> None:
        self.address, self.names, self.browser, self.settings = address, names, browser, settings

    @contextmanager
    def visit(self, role: ServiceRole | None = None, **options: Any) -> Iterator[Any]:
        """Open a window in which somebody with this role is signed in; nothing may go wrong in it."""
        context = self.browser.new_context(base_url=self.address, **options)
        context.set_default_timeout(15_000)
        page, wrong = context.new_page(), []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        # A form that is refused is answered with 422, which the console of the browser notes.
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" and "422" not in m.text else None)
        if role is not None:
            page.goto("/sign-in")
            page.get_by_role("button", name=str(role)).click()
            shown(page.get_by_role("button", name="Sign out"))
        yield page
        context.close()
        assert wrong == []

    def pages(self) -> dict[ServiceRole | None, list[str]]:
        """Return every page, by the role that sees it."""
        done = f"/requests/{self.names['done']}"
        return {
            None: ["/", "/sign-in", "/verify", "/erasure", "/erasure/sent", "/demo/mail"],
            ServiceRole.REVIEW: [
                "/",
                "/requests",
                "/requests?show=all",
                "/requests?show=failed",
                "/requests/new",
                f"/requests/{self.names['waiting']}",
                f"/requests/{self.names['rejected']}",
                done,
                f"{done}/certificate",
                "/certificates",
                "/models",
                "/models/all",
            ],
            ServiceRole.INTAKE: ["/requests"],
            ServiceRole.OPERATION: ["/"],
            ServiceRole.AUDIT: ["/trail"],
            ServiceRole.ADMINISTRATION: ["/administration"],
        }


def shown(locator: Any) -> None:
    """Wait until an element is visible: a click returns before the page that it leads to is there."""
    locator.wait_for(state="visible")


def test_new_officer_finds_the_overdue_request_and_ends_with_a_certificate_that_verifies(site, tmp_path):
    with site.visit(accept_downloads=True) as page:
        page.goto("/")
        page.get_by_role("banner").get_by_role("link", name="Sign in").click()
        page.get_by_role("button", name="Review").click()
        overdue = page.get_by_role("region", name="Overdue")
        overdue.get_by_role("link", name=site.names["overdue"]).click()
        page.get_by_role("button", name="Identity is verified").click()
        page.get_by_role("button", name="Accept").click()
        # The worker takes it up, and the page follows by itself.
        page.get_by_text("Carried out, certified").first.wait_for()
        models = page.get_by_role("region", name="Each model")
        playwright.expect(models.get_by_text("Erased", exact=True)).to_have_count(2, timeout=15_000)
        page.get_by_role("link", name="View the certificate").click()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the signed file").click()
        file = tmp_path / "certificate.json"
        download.value.save_as(file)
        page.get_by_role("contentinfo").get_by_role("link", name="Verify a certificate").click()
        page.get_by_label("Certificate").set_input_files(file)
        page.get_by_role("button", name="Verify").click()
        shown(page.get_by_role("heading", name="Genuine"))
        page.get_by_role("button", name="Sign out").click()
        shown(page.get_by_role("banner").get_by_role("link", name="Sign in"))


def test_person_asks_confirms_and_withdraws_without_scripts(site):
    with site.visit(java_script_enabled=False) as page:
        page.goto("/erasure")
        page.get_by_label("Subject").fill("nobody here")
        page.get_by_role("button", name="Send").click()
        shown(page.get_by_role("alert").get_by_role("link", name="Enter an e-mail address"))
        page.get_by_label("E-mail address").fill("someone@example.org")
        page.get_by_role("button", name="Send").click()
        page.get_by_role("link", name="Read the message here").click()
        page.get_by_role("link", name="/erasure/confirm/").first.click()
        page.get_by_role("button", name="Confirm").click()
        shown(page.get_by_role("heading", name="We have received your request"))
        page.get_by_text("Withdraw the request").click()
        page.get_by_role("button", name="Withdraw").click()
        shown(page.get_by_role("heading", name="You have withdrawn your request"))


def test_officer_filters_chooses_all_and_drops_a_file_with_scripts(site):
    with site.visit(ServiceRole.REVIEW) as page:
        page.goto("/requests")
        page.get_by_label("Show").select_option("closed")
        page.get_by_role("link", name=site.names["rejected"]).wait_for()
        assert "show=closed" in page.url
        page.get_by_label("Show").select_option("all")
        page.get_by_role("link", name=site.names["done"]).wait_for()
        boxes = page.locator("tbody input[type=checkbox]")
        if boxes.count() > 1:
            page.get_by_label("Choose all requests on this page").check()
            assert all(boxes.nth(i).is_checked() for i in range(boxes.count()))
        page.goto("/verify")
        page.evaluate(
            """() => { const files = new DataTransfer(); files.items.add(new File(["{}"], "c.json"));
            document.querySelector("[data-drop]").dispatchEvent(new DragEvent("drop", {dataTransfer: files})); }"""
        )
        page.get_by_role("button", name="Verify").click()
        shown(page.get_by_role("heading", name="Not a valid certificate"))


@pytest.mark.skipif(not AXE.is_file(), reason="needs npm ci --prefix tests/service/axe")
def test_every_page_is_accessible_in_light_and_dark_and_fits_a_narrow_screen(site):
    rules = AXE.read_text()
    for role, paths in site.pages().items():
        with site.visit(role, color_scheme="light", reduced_motion="reduce") as page:
            for path in paths:
                assert page.goto(path).status == 200, path
                _check(page, path, rules)
            if role is ServiceRole.REVIEW:
                page.goto(f"/requests/{site.names['waiting']}")
                page.get_by_role("button", name="Reject").click()
                shown(page.get_by_role("alert"))
                _check(page, "a form with an error", rules)


def _check(page: Any, path: str, rules: str) -> None:
    page.evaluate(rules)
    assert page.evaluate(FIND, {"type": "tag", "values": RULES}) == [], path
    # Nothing but the colours changes in the dark.
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(FIND, {"type": "rule", "values": ["color-contrast"]}) == [], f"{path} in the dark"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, f"{path} on a narrow screen"
    page.set_viewport_size({"width": 1280, "height": 800})


def test_first_stop_of_the_keyboard_skips_to_the_content(site):
    with site.visit() as page:
        page.goto("/verify")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
