#!/bin/sh
# Installs the packages of Debian or Ubuntu that the project needs and that this machine lacks:
# a PostgreSQL server with wal2json and, for a test, plpgsql_check, Java, Python's venv. PG=17 asks for that version of PostgreSQL,
# CHROMIUM=1 for a browser too.
set -eu
umask 022 # every user reads what is made in /etc
here=$(cd "$(dirname "$0")" && pwd)

fail() {
    echo "$1" >&2
    echo "Try: $2" >&2
    exit 1
}

java_version() {
    # Without the option Java leaves a folder for its own tools.
    "${JAVA_HOME:+$JAVA_HOME/bin/}java" -XX:-UsePerfData -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'
}

wanted=""
if ! "$here/find-postgres" >/dev/null 2>&1; then
    [ -n "${PG:-}" ] || [ -z "${PG_BIN:-}" ] || exec "$here/find-postgres"
    wanted="$wanted postgres"
fi
java=$(java_version)
if [ "${java:-0}" -lt 17 ]; then
    [ -z "${JAVA_HOME:-}" ] || fail "JAVA_HOME is $JAVA_HOME, which has no Java 17 or newer" \
        "unset JAVA_HOME"
    wanted="$wanted java"
fi
if ! "$here/find-python" >/dev/null 2>&1; then
    [ -z "${PYTHON:-}" ] || exec "$here/find-python"
    wanted="$wanted python"
fi
# The server does not run as root: root starts it as the user postgres.
[ "$(id -u)" -ne 0 ] || command -v runuser >/dev/null || wanted="$wanted runuser"
[ -z "${CHROMIUM:-}" ] || command -v chromium >/dev/null || wanted="$wanted chromium"
[ -n "$wanted" ] || exit 0

described=""
describe() { described="${described:+$described; }$1"; }
for each in $wanted; do
    case $each in
    postgres) describe "a PostgreSQL server${PG:+ of version $PG} with wal2json" ;;
    java) describe "Java 17 or 21" ;;
    python) describe "Python 3.11, 3.12 or 3.13 with venv" ;;
    runuser) describe "runuser (util-linux)" ;;
    chromium) describe "Chromium, for the tests of a page" ;;
    esac
done
command -v apt-get >/dev/null || fail "This machine lacks: $described" \
    "install that by your system's package manager, then make install; PG_BIN names the folder \
of PostgreSQL's programs, JAVA_HOME Java's, PYTHON the interpreter"
[ "$(id -u)" -eq 0 ] || fail "This machine lacks: $described" \
    "sudo ${PG:+PG=$PG }${CHROMIUM:+CHROMIUM=1 }ops/install-debian.sh"

echo "This machine lacks: $described"
echo "Fetching the list of packages"
# One archive that is gone, of whomever, fails it; what is needed may be in the others.
apt-get update -qq || echo "That list is not complete; going on with what is known"

available() { LC_ALL=C apt-cache policy "$1" | grep -q 'Candidate: [^(]'; }
first_available() {
    for package; do
        ! available "$package" || { echo "$package"; return; }
    done
}

# Print the packages of server, plugin and, where there is one, plpgsql_check: of PG, else of the newest server that is here, else
# of the newest version that the archive has both of.
postgres_packages() {
    installed=$(find "${PG_ROOT:-/usr/lib/postgresql}" -path '*/bin/postgres' 2>/dev/null |
        sed 's|/bin/postgres$||; s|.*/||' | sort -Vr)
    archived=$(apt-cache search --names-only '^postgresql-[0-9]+-wal2json$' |
        sed 's/^postgresql-\([0-9]*\).*/\1/' | sort -Vr)
    for version in ${PG:-$installed $archived}; do
        if available "postgresql-$version" && available "postgresql-$version-wal2json"; then
            echo "postgresql-$version postgresql-$version-wal2json" \
                "$(first_available "postgresql-$version-plpgsql-check")"
            return
        fi
    done
}

packages=""
for each in $wanted; do
    case $each in
    postgres) found=$(postgres_packages) ;;
    java) found=$(first_available openjdk-21-jre-headless openjdk-17-jre-headless) ;;
    python) found=$(first_available python3.13-venv python3.12-venv python3.11-venv) ;;
    runuser) found=util-linux ;;
    chromium) found=$(first_available chromium) ;;
    esac
    [ -n "$found" ] || fail "The package archive lacks what this machine lacks: $described" \
        "another archive, for PostgreSQL apt.postgresql.org; or PG_BIN, JAVA_HOME or PYTHON where \
it is installed"
    packages="$packages $found"
done

# The project starts its own servers. Without this, the package would start another one.
conf=/etc/postgresql-common/createcluster.conf
if [ ! -e "$conf" ]; then
    mkdir -p "$(dirname "$conf")"
    echo "create_main_cluster = false" >"$conf"
fi
echo "Installing$packages"
quiet=-q # for a log; on a terminal apt-get shows its progress
[ ! -t 1 ] || quiet=""
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install -y $quiet --no-install-recommends $packages
