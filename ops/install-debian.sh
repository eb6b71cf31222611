#!/bin/sh
# Installs the Debian packages that the project needs and that this machine lacks.
set -eu

wanted=""
need() { [ -e "$1" ] || wanted="$wanted $2"; }

need /usr/lib/postgresql/15/bin/postgres postgresql-15
need /usr/lib/postgresql/15/lib/wal2json.so postgresql-15-wal2json
command -v java >/dev/null || wanted="$wanted openjdk-17-jre-headless"
python3 -c 'import ensurepip, venv' 2>/dev/null || wanted="$wanted python3-venv"
command -v runuser >/dev/null || wanted="$wanted util-linux"

[ -n "$wanted" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "Missing Debian packages:$wanted" >&2
    echo "Try: sudo apt-get install --no-install-recommends$wanted" >&2
    exit 1
fi

# The project starts its own servers. Without this, Debian's package would start another one.
conf=/etc/postgresql-common/createcluster.conf
if [ ! -e "$conf" ]; then
    mkdir -p "$(dirname "$conf")"
    echo "create_main_cluster = false" >"$conf"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $wanted
