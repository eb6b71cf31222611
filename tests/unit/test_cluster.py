"""Where no server can be started, the reason is a sentence."""

from __future__ import annotations

import os
import pwd

import pytest

from testkit.servers import Cluster, ClusterError


def test_root_without_a_user_postgres_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was built by hand has none."""

    def nobody(name: str) -> pwd.struct_passwd:
        raise KeyError(f"getpwnam(): name not found: {name!r}")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", nobody)
    with pytest.raises(ClusterError, match="\nTry: useradd --system postgres"):
        Cluster()
