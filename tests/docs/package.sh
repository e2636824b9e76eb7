#!/bin/sh
# Makes the Debian package, unpacks it elsewhere and runs what is in it. Usage: package.sh CPACK BUILD_FOLDER WORK_FOLDER
set -eu
cpack=$1 build=$2 work=$3
command -v dpkg-deb >/dev/null 2>&1 && command -v dpkg-shlibdeps >/dev/null 2>&1 || { echo "no dpkg-dev here"; exit 77; }
rm -rf "$work" && mkdir -p "$work"
"$cpack" --config "$build/CPackConfig.cmake" -G DEB -B "$work" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
deb=$(echo "$work"/convoy_*.deb)
dpkg-deb --info "$deb" | grep -E '^ (Package|Version|Depends|Maintainer):'
dpkg-deb --info "$deb" | grep -q 'Depends:.*libc6' || { echo "the package does not say which libc it needs"; exit 1; }
dpkg-deb -x "$deb" "$work/root"
for file in bin/convoy include/convoy/convoy.h share/convoy/suites/leaderboard.txt share/man/man1/convoy.1 \
    lib*/libconvoy.so.0.1 lib*/pkgconfig/convoy.pc lib*/cmake/convoy/convoy-config.cmake; do
    [ -n "$(find "$work/root/usr" -path "$work/root/usr/$file")" ] || { echo "the package lacks usr/$file"; exit 1; }
done
lib=$(dirname "$(find "$work/root/usr" -name libconvoy.so.0.1)")
said=$(LD_LIBRARY_PATH=$lib "$work/root/usr/bin/convoy" --version)
echo "$said"
LD_LIBRARY_PATH=$lib "$work/root/usr/bin/convoy" verify n1c2h16k2r3 --exclude=onednn --device=cpu
