"""Outgoing e-mail: by SMTP, or, for a demonstration, into files that can be looked at."""

from __future__ import annotations

import secrets
import smtplib
import ssl
from email.message import EmailMessage
from pathlib import Path
from typing import Protocol

from eupg.errors import KeyFileError, MailFailed
from eupg.files import make_folder, write_atomically
from eupg.service.settings import MailSettings, ServiceSettings

_TIMEOUT_S = 20.0


class Mailer(Protocol):
    """Whatever sends an e-mail."""

    def send(self, to: str, subject: str, text: str) -> None:
        """Send a message, or raise."""


class SmtpMailer:
    """Sends by SMTP, over TLS unless that was switched off."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings

    def send(self, to: str, subject: str, text: str) -> None:
        """Send a message."""
        settings, message = self._settings, EmailMessage()
        message["From"], message["To"], message["Subject"] = settings.sender, to, subject
        message.set_content(text)
        try:
            with smtplib.SMTP(settings.host, settings.port, timeout=_TIMEOUT_S) as server:
                if settings.starttls:
                    server.starttls(context=ssl.create_default_context())
                if settings.user is not None and settings.password_file is not None:
                    server.login(settings.user, _password(settings.password_file))
                server.send_message(message)
        except (OSError, smtplib.SMTPException) as error:
            # Without the text: it may repeat the address.
            raise MailFailed(f"the e-mail was not sent ({type(error).__name__}): try again later") from None


class FolderMailer:
    """Writes messages into a folder, one file each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def send(self, to: str, subject: str, text: str) -> None:
        """Write a message."""
        make_folder(self._folder)
        content = f"To: {to}\nSubject: {subject}\n\n{text}"
        write_atomically(self._folder / f"{secrets.token_hex(8)}.txt", content.encode())


def mailer_of(settings: ServiceSettings) -> Mailer | None:
    """Return what sends e-mail; None where nothing does."""
    if settings.mail is not None:
        return SmtpMailer(settings.mail)
    return FolderMailer(settings.own_folder / "outbox") if settings.demo else None


def _password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path}: the password cannot be read: {error}") from error
