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
dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./triggers | grep -qx 'activate-noawait ldconfig' || { echo "the package does not tell the loader"; exit 1; }
dpkg-deb -x "$deb" "$work/root"
for file in bin/convoy include/convoy/convoy.h share/convoy/suites/leaderboard.txt share/man/man1/convoy.1.gz \
    share/doc/convoy/copyright share/doc/convoy/changelog.gz \
    lib*/libconvoy.so.0.1 lib*/pkgconfig/convoy.pc lib*/cmake/convoy/convoy-config.cmake; do
    [ -n "$(find "$work/root/usr" -path "$work/root/usr/$file")" ] || { echo "the package lacks usr/$file"; exit 1; }
done
grep -qx 'prefix=/usr' "$(find "$work/root/usr" -name convoy.pc)" || { echo "convoy.pc names another prefix than /usr"; exit 1; }
lib=$(dirname "$(find "$work/root/usr" -name libconvoy.so.0.1)")
objdump -p "$lib/libconvoy.so.0.1" | grep -q 'SONAME *libconvoy.so.0.1$' || { echo "the library's soname is not libconvoy.so.0.1"; exit 1; }
[ "$(readlink "$lib/libconvoy.so")" = libconvoy.so.0.1 ] || { echo "libconvoy.so does not lead to libconvoy.so.0.1"; exit 1; }
! objdump -p "$work/root/usr/bin/convoy" "$lib/libconvoy.so.0.1" | grep -E 'RPATH|RUNPATH' | grep -vF '$ORIGIN' || { echo "a path of the build is left in"; exit 1; }
! find "$work/root" \( -perm -002 ! -type l -o -type f -name '*.h' -perm /111 \) | grep . || { echo "odd permissions"; exit 1; }
said=$(LD_LIBRARY_PATH=$lib "$work/root/usr/bin/convoy" --version)
echo "$said"
LD_LIBRARY_PATH=$lib "$work/root/usr/bin/convoy" verify n1c2h16k2r3 --exclude=onednn --device=cpu
