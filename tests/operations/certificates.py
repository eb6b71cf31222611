"""Certificates made by openssl, good for two days."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path


class Authority:
    """A certificate authority in a folder; `root` is what its clients verify with."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.root, self._key = self._request("root", "a test's authority")

    def issue(self, name: str, *names: str) -> tuple[Path, Path]:
        """Return certificate and key for a common name, valid for the host names."""
        hosts = ["-addext", "subjectAltName=" + ",".join(f"DNS:{n}" for n in names)]
        signed = ["-CA", str(self.root), "-CAkey", str(self._key)]
        return self._request(name, name, *signed, *(hosts if names else []))

    def _request(self, file: str, name: str, *more: str) -> tuple[Path, Path]:
        certificate, key = (self._folder / f"{file}.{end}" for end in ("crt", "key"))
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-batch", "-nodes", "-days", "2"),
                *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
                *("-subj", f"/CN={name}", "-out", str(certificate), "-keyout", str(key)),
                *more,
            ],
            check=True,
            capture_output=True,
        )
        key.chmod(0o600)
        return certificate, key


def give_to_server(file: Path, place: Path) -> None:
    """Copy a file to where the server, which root runs as another user, may read it."""
    place.write_bytes(file.read_bytes())
    place.chmod(0o600)
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(place, owner.pw_uid, owner.pw_gid)
