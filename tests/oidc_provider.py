"""A small OpenID Connect provider, as a process of its own; it signs everybody in as the person it was told.

``python oidc_provider.py PORT`` prints ``ready``. ``POST /told`` sets the claims of the next id token, or breaks it.
"""

import base64
import hashlib
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

# Collecting doctests imports this file, with other arguments.
PORT = int(sys.argv[1]) if __name__ == "__main__" else 0
ISSUER = f"http://127.0.0.1:{PORT}"
KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})
CODES: dict[str, dict[str, str]] = {}
TOLD: dict = {}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/.well-known/openid-configuration":
            self.answer(
                {
                    "issuer": ISSUER,
                    "authorization_endpoint": f"{ISSUER}/authorize",
                    "token_endpoint": f"{ISSUER}/token",
                    "jwks_uri": f"{ISSUER}/keys",
                }
            )
        elif parts.path == "/keys":
            self.answer(KeySet([KEY]).as_dict(private=False))
        elif parts.path == "/authorize":
            code = secrets.token_urlsafe(16)
            CODES[code] = query
            self.send_response(302)
            back = urlencode({"code": code, "state": query["state"]})
            self.send_header("location", f"{query['redirect_uri']}?{back}")
            self.send_header("content-length", "0")
            self.end_headers()

    def do_POST(self):
        content = self.rfile.read(int(self.headers["content-length"])).decode()
        if self.path == "/told":
            TOLD.clear()
            TOLD.update(json.loads(content))
            self.answer({})
            return
        sent = {name: values[0] for name, values in parse_qs(content).items()}
        asked = CODES.pop(sent.get("code", ""), None)
        authorized = self.headers.get("authorization", "").startswith("Basic ")
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or not authorized or challenge != asked["code_challenge"]:
            self.answer({"error": "invalid_grant"}, 400)
            return
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": "user-1",
            "aud": asked["client_id"],
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "name": "An Officer",
            "groups": ["privacy office"],
        }
        claims |= TOLD.get("claims", {})
        header = {"alg": "RS256", "kid": "one"}
        token = jwt.encode(header, claims, OTHER if TOLD.get("wrong_key") else KEY)
        if TOLD.get("none"):
            head = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
            token = f"{head}.{token.split('.')[1]}."
        self.answer({"access_token": "x", "token_type": "Bearer", "id_token": token})

    def answer(self, values, status=200):
        content = json.dumps(values).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
    print("ready", flush=True)
    server.serve_forever()
