#!/bin/sh
# Build a Debian package of dcron with an environment of its own, in dist/: `make deb`.
# It needs dpkg-deb, /usr/bin/python3 (3.11 or later), and hatchling in the environment $BIN (`make setup`).
set -eu
cd "$(dirname "$0")/.."
python=/usr/bin/python3
bin=${BIN:-.venv/bin}
home=/usr/lib/dcron
stage=$PWD/build/deb
version=$("$bin/python" -m hatchling version | sed 's/\.dev/~dev/')
architecture=$(dpkg --print-architecture)
minor=$($python -c 'import sys; print(sys.version_info[1])')

rm -rf "$stage"
mkdir -p "$stage/DEBIAN" "$stage$home" "$stage/usr/bin" "$stage/usr/share/zsh/vendor-completions" \
    "$stage/usr/share/doc/dcron" "$stage/usr/lib/systemd/system" "$stage/etc/dcron"

# The environment is made here and runs in its place: programs and compiled files must name that one.
$python -m venv --without-pip "$stage$home"
"$bin/python" -m pip --python "$stage$home/bin/python3" install --no-compile --no-warn-script-location ".[notify,archive]"
rm -f "$stage$home"/bin/[Aa]ctivate* "$stage$home"/lib/python3*/site-packages/dcrontab-*/direct_url.json
find "$stage$home" -name __pycache__ -type d -prune -exec rm -rf {} +
grep -lrI "$stage" "$stage$home/bin" "$stage$home/pyvenv.cfg" | xargs sed -i "s#$stage##g"
$python -m compileall -q -s "$stage" "$stage$home/lib"

mv "$stage$home/share/man" "$stage$home/share/bash-completion" "$stage$home/share/fish" "$stage/usr/share"
mv "$stage$home/share/zsh/site-functions/_dcron" "$stage/usr/share/zsh/vendor-completions/_dcron"
rm -rf "$stage$home/share"
ln -s "$home/bin/dcron" "$stage/usr/bin/dcron"
gzip -9n "$stage/usr/share/man/man1/"*.1
cp LICENSE "$stage/usr/share/doc/dcron/copyright"
gzip -9nc CHANGELOG.md >"$stage/usr/share/doc/dcron/changelog.gz"
cp -R README.md docs "$stage/usr/share/doc/dcron"
for unit in docs/deploy/*.service; do
    sed 's#/usr/local/bin/dcron#/usr/bin/dcron#; s#^EnvironmentFile=#&-#' "$unit" \
        >"$stage/usr/lib/systemd/system/$(basename "$unit")"
done
cp scripts/deb/config.toml "$stage/etc/dcron/config.toml"

for script in postinst prerm postrm; do
    install -m 0755 "scripts/deb/$script" "$stage/DEBIAN/$script"
done
echo /etc/dcron/config.toml >"$stage/DEBIAN/conffiles"
cat >"$stage/DEBIAN/control" <<CONTROL
Package: dcron
Version: $version
Architecture: $architecture
Maintainer: dcron developers <dcron@users.noreply.github.com>
Section: admin
Priority: optional
Homepage: https://github.com/dcrontab/dcron
Installed-Size: $(du -sk --exclude=DEBIAN "$stage" | cut -f1)
Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1))), libc6, ca-certificates
Description: one crontab that many servers share through SQLite or Postgres
 Every server runs an agent. For each scheduled run, one agent claims the run
 and starts the command once. The units are installed, not enabled or started.
CONTROL
chmod -R u=rwX,go=rX "$stage"
mkdir -p dist
dpkg-deb --root-owner-group -Zzstd --build "$stage" "dist/dcron_${version}_$architecture.deb"
