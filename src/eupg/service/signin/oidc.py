"""Sign-in by OpenID Connect: the authorization code flow with PKCE, a state and a nonce.

What has to be remembered between the two steps travels in a sealed cookie, so another browser cannot finish a sign-in
that this one began.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from eupg.errors import AccessDenied, KeyFileError, ParameterError, SignInFailed
from eupg.service.sealing import Seal
from eupg.service.settings import OidcSettings

CALLBACK = "/sign-in/oidc/callback"
_ALGORITHMS = ["RS256", "PS256", "ES256", "Ed25519"]
_SECONDS = 600
_TIMEOUT_S = 10.0
_KEYS_FRESH_S = 300.0
_LEEWAY_S = 60
_ABOUT = "sign-in"
_LARGEST_ANSWER = 1024 * 1024
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class OidcSignIn:
    """Signs people in at a provider, and reads who they are from its signed answer."""

    def __init__(self, settings: OidcSettings, seal: Seal, public_url: str) -> None:
        if not _is_safe(settings.issuer):
            raise ParameterError("oidc.issuer must begin with https://: anyone between could sign in as anyone")
        self._settings, self._seal, self._redirect = settings, seal, public_url + CALLBACK
        try:
            self._secret = settings.client_secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise KeyFileError(f"{settings.client_secret_file}: the client secret cannot be read: {error}") from error
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._keys: tuple[float, KeySet] | None = None

    def begin(self, next_path: str) -> tuple[str, str]:
        """Return the provider's address to send the browser to, and the value of the cookie to come back with."""
        values = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        with self._client() as client:
            url, _ = client.create_authorization_url(
                self._provider()["authorization_endpoint"],
                state=values["state"],
                nonce=values["nonce"],
                code_challenge=create_s256_code_challenge(values["verifier"]),
                code_challenge_method="S256",
            )
        values |= {"next": next_path, "until": str(int(time.time()) + _SECONDS)}
        return str(url), base64.urlsafe_b64encode(self._seal.seal(values, about=_ABOUT)).decode()

    def finish(self, *, code: str, state: str, cookie: str) -> tuple[dict[str, Any], str]:
        """Return the claims about the person, and where to go next."""
        values = self._opened(cookie)
        if not hmac.compare_digest(values["state"].encode(), state.encode()) or int(values["until"]) < time.time():
            raise AccessDenied("this sign-in was begun in another browser, or too long ago: sign in again")
        try:
            with self._client() as client:
                token = client.fetch_token(
                    self._provider()["token_endpoint"],
                    grant_type="authorization_code",
                    code=code,
                    code_verifier=values["verifier"],
                )
            id_token = str(token.get("id_token", ""))
        # The client reads the answer before it knows that it is an object.
        except (OAuthError, httpx.HTTPError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SignInFailed(f"the provider did not confirm the sign-in ({type(error).__name__})") from None
        return self._claims(id_token, values["nonce"]), values["next"]

    def groups(self, claims: dict[str, Any]) -> list[str]:
        """Return the groups that the provider names."""
        groups = claims.get(self._settings.groups_claim, [])
        return [str(group) for group in groups] if isinstance(groups, list) else [str(groups)]

    def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """Check the signature of the id token, and that it was made for this service, now, and for this sign-in."""
        try:
            claims = self._decoded(token)
            registry = jwt.JWTClaimsRegistry(
                leeway=_LEEWAY_S,
                iss={"essential": True, "value": self._settings.issuer},
                aud={"essential": True, "value": self._settings.client_id},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": nonce},
            )
            registry.validate(claims)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise SignInFailed(f"the provider's answer does not hold ({type(error).__name__})") from None
        audience = claims["aud"]
        if isinstance(audience, list) and len(audience) > 1 and claims.get("azp") != self._settings.client_id:
            raise SignInFailed("the provider's answer was made for another service")
        return claims

    def _decoded(self, token: str) -> dict[str, Any]:
        try:
            return dict(jwt.decode(token, self._key_set(), algorithms=_ALGORITHMS).claims)
        except (JoseError, ValueError):
            # The provider may have changed its keys.
            return dict(jwt.decode(token, self._key_set(fresh=True), algorithms=_ALGORITHMS).claims)

    def _opened(self, cookie: str) -> dict[str, str]:
        try:
            return self._seal.open(base64.urlsafe_b64decode(cookie), about=_ABOUT)
        except Exception:
            raise AccessDenied("this sign-in was begun in another browser: sign in again") from None

    def _client(self) -> OAuth2Client:
        return OAuth2Client(
            client_id=self._settings.client_id,
            client_secret=self._secret,
            scope=" ".join(self._settings.scopes),
            redirect_uri=self._redirect,
            timeout=_TIMEOUT_S,
            trust_env=False,
        )

    def _provider(self) -> dict[str, Any]:
        """Return what the provider says about itself."""
        with self._lock:
            if not self._found:
                address = self._settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
                found = self._get(address)
                if found.get("issuer") != self._settings.issuer:
                    raise SignInFailed("the provider names another issuer than the settings do: correct oidc.issuer")
                if not all(_is_safe(found.get(name)) for name in _ENDPOINTS):
                    raise SignInFailed(f"the provider has to name {', '.join(_ENDPOINTS)}, each with https://")
                self._found = found
            return self._found

    def _key_set(self, *, fresh: bool = False) -> KeySet:
        address = self._provider()["jwks_uri"]
        with self._lock:
            age = time.monotonic() - (self._keys[0] if self._keys else -_KEYS_FRESH_S)
            # Whoever sends bad tokens does not make us ask the provider each time.
            if self._keys is None or age > _KEYS_FRESH_S or (fresh and age > 5):
                self._keys = time.monotonic(), KeySet.import_key_set(self._get(address))  # type: ignore[arg-type]
            return self._keys[1]

    def _get(self, address: str) -> dict[str, Any]:
        try:
            with (
                httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as client,
                client.stream("GET", address, headers={"Accept-Encoding": "identity"}) as answer,
            ):
                answer.raise_for_status()
                content = bytearray()
                for part in answer.iter_raw():
                    content += part
                    if len(content) > _LARGEST_ANSWER:
                        raise ValueError("too large")
            values = json.loads(content)
            if not isinstance(values, dict):
                raise ValueError("not an object")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            raise SignInFailed(f"the provider does not answer ({type(error).__name__}): try again later") from None
        return values


def _is_safe(url: object) -> bool:
    """Tell whether nobody between can read or change what is sent to an address."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        return False
    near = parts.hostname in _LOOPBACK and parts.scheme == "http"
    return near or (parts.scheme == "https" and bool(parts.hostname))
